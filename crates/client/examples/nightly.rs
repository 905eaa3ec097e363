use std::time::Duration;

use fencepost_client::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let servers = std::env::var("FENCEPOST_ENDPOINTS");
    let servers = servers.unwrap_or_else(|_| "http://127.0.0.1:7420".to_owned());
    let client = Client::builder().endpoints(servers.split(',')).name("nightly").connect().await?;

    let lock = client.lock("reports/nightly").ttl(Duration::from_secs(30));
    let guard = lock.wait(Duration::from_secs(60)).acquire().await?;

    // If the lock is lost, the work is dropped before anybody else can get it. The token goes along
    // with every write, so that the store can refuse one that comes too late all the same.
    let token = guard.token().get();
    guard.run(async { eprintln!("writing with token {token}") }).await?;
    guard.release().await?;
    Ok(())
}
