//! The rule inside a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use support::Server;
use support::postgres::{connect, connect_as, install, postgres, told};
use tokio_postgres::Client;

async fn guard(client: &Client, token: i64, mode: &str) -> Result<(), (String, String)> {
    let sql = "SELECT fencepost.guard('a', $1, $2)";
    client.execute(sql, &[&token, &mode]).await.map(drop).map_err(|error| told(&error))
}

/// All of it on one server, because starting one takes longer than anything that is asked of it.
#[tokio::test]
async fn postgres_follows_the_rule() {
    let Some(server) = postgres() else { return };
    let client = install(&server).await;
    // Twice: an upgrade runs the file again.
    client.batch_execute(fencepost_fence::POSTGRES_SQL).await.unwrap();
    the_words_of_the_founding_document(&client).await;
    shared_tokens_never_raise_the_mark(&client).await;
    floors_and_bad_tokens(&client).await;
    a_rolled_back_write_leaves_no_mark(&server, &client).await;
    an_old_snapshot_does_not_help_a_late_writer(&server, &client).await;
    a_table_demands_a_token(&client).await;
    rows_demand_a_token_each(&client).await;
    nobody_may_do_anything_unasked(&server, &client).await;
    the_guide_is_right(&client).await;
}

/// Every SQL example of the guide, in order.
async fn the_guide_is_right(client: &Client) {
    client.batch_execute("DROP TABLE account; DROP OWNED BY app; DROP ROLE app").await.unwrap();
    let guide = include_str!("../../../docs/fencing.md");
    let blocks: Vec<&str> =
        guide.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        client.batch_execute(block).await.unwrap();
    }
    let row = client.query_one("SELECT balance FROM account", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 90);
}

async fn clean(client: &Client) {
    client.batch_execute("TRUNCATE fencepost.mark").await.unwrap();
}

async fn the_words_of_the_founding_document(client: &Client) {
    guard(client, 101, "exclusive").await.unwrap();
    let (code, words) = guard(client, 100, "exclusive").await.unwrap_err();
    assert_eq!((code.as_str(), words.as_str()), ("FP001", "Token 100 is stale, last seen was 101"));
    guard(client, 101, "exclusive").await.unwrap();
    let strict = client.execute("SELECT fencepost.guard('a', 101, once => true)", &[]).await;
    let (code, words) = told(&strict.unwrap_err());
    assert_eq!((code.as_str(), words.as_str()), ("FP002", "Token 101 already used"));
    clean(client).await;
}

async fn shared_tokens_never_raise_the_mark(client: &Client) {
    guard(client, 50, "shared").await.unwrap();
    guard(client, 49, "permit").await.unwrap();
    guard(client, 10, "exclusive").await.unwrap();
    assert_eq!(guard(client, 9, "shared").await.unwrap_err().0, "FP001");
    clean(client).await;
}

async fn floors_and_bad_tokens(client: &Client) {
    client.batch_execute("SELECT fencepost.raise_floor('a', 8, '{10,11}')").await.unwrap();
    client.batch_execute("SELECT fencepost.raise_floor('a', 3, '{12,5}')").await.unwrap();
    for (token, mode) in [(7, "exclusive"), (10, "shared"), (11, "shared"), (12, "permit")] {
        assert_eq!(guard(client, token, mode).await.unwrap_err().0, "FP003", "{token}");
    }
    guard(client, 9, "shared").await.unwrap();
    guard(client, 8, "exclusive").await.unwrap();
    guard(client, 20, "exclusive").await.unwrap();
    let row = client.query_one("SELECT taken FROM fencepost.mark", &[]).await.unwrap();
    assert_eq!(row.get::<_, Vec<i64>>(0), [0; 0], "what is stale anyway is forgotten");
    for (token, mode) in [(0, "exclusive"), (-1, "exclusive"), (99, "Shared"), (99, "")] {
        assert_eq!(guard(client, token, mode).await.unwrap_err().0, "FP004", "{token} {mode:?}");
    }
    clean(client).await;
}

async fn a_rolled_back_write_leaves_no_mark(server: &Server, client: &Client) {
    client.batch_execute("BEGIN; SELECT fencepost.guard('a', 9); ROLLBACK").await.unwrap();
    guard(&connect(server).await, 5, "exclusive").await.unwrap();
    clean(client).await;
}

/// A transaction that reads the past would not see the later holder. It must fail all the same.
async fn an_old_snapshot_does_not_help_a_late_writer(server: &Server, client: &Client) {
    let late = connect(server).await;
    for is_known in [false, true] {
        if is_known {
            guard(client, 9, "exclusive").await.unwrap();
        }
        for (level, mode) in [
            ("REPEATABLE READ", "exclusive"),
            ("SERIALIZABLE", "exclusive"),
            ("REPEATABLE READ", "shared"),
        ] {
            let begin = format!("BEGIN ISOLATION LEVEL {level}; SELECT 1 FROM pg_class LIMIT 1");
            late.batch_execute(&begin).await.unwrap();
            guard(client, 11, "exclusive").await.unwrap();
            let (code, _) = guard(&late, 10, mode).await.unwrap_err();
            assert_eq!(code, "40001", "{level} {mode}");
            late.batch_execute("ROLLBACK").await.unwrap();
            clean(client).await;
            if is_known {
                guard(client, 9, "exclusive").await.unwrap();
            }
        }
        clean(client).await;
    }
}

async fn a_table_demands_a_token(client: &Client) {
    client
        .batch_execute(
            "CREATE TABLE account (id int PRIMARY KEY, balance int);
             CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON account
                 FOR EACH STATEMENT EXECUTE FUNCTION fencepost.guard_table('account');",
        )
        .await
        .unwrap();
    let with = |token: &str, sql: &str| {
        format!("BEGIN; SELECT set_config('fencepost.token', '{token}', true); {sql}; COMMIT")
    };
    let run = async |sql: String| {
        let outcome = client.batch_execute(&sql).await.map_err(|error| told(&error).0);
        client.batch_execute("ROLLBACK").await.unwrap();
        outcome
    };
    let insert = "INSERT INTO account VALUES (1, 100)";
    assert_eq!(run(insert.to_owned()).await, Err("FP005".to_owned()));
    run(with("11", insert)).await.unwrap();
    // Several statements with one token.
    run(with("11", "UPDATE account SET balance = 1; UPDATE account SET balance = 95"))
        .await
        .unwrap();
    for late in ["UPDATE account SET balance = 0", "DELETE FROM account", "TRUNCATE account"] {
        assert_eq!(run(with("10", late)).await, Err("FP001".to_owned()), "{late}");
        assert_eq!(run(late.to_owned()).await, Err("FP005".to_owned()), "{late}");
    }
    for bad in ["0", "-1", "1.5", "011", "99999999999999999999", "x"] {
        assert_eq!(run(with(bad, "DELETE FROM account")).await, Err("FP004".to_owned()), "{bad}");
    }
    let row = client.query_one("SELECT balance FROM account", &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 95);
}

async fn rows_demand_a_token_each(client: &Client) {
    client
        .batch_execute(
            "CREATE TABLE page (site text, body text);
             CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE ON page
                 FOR EACH ROW EXECUTE FUNCTION fencepost.guard_row('site');",
        )
        .await
        .unwrap();
    let run = async |token: u32, sql: &str| {
        let sql =
            format!("BEGIN; SELECT set_config('fencepost.token', '{token}', true); {sql}; COMMIT");
        let outcome = client.batch_execute(&sql).await.map_err(|error| told(&error).0);
        client.batch_execute("ROLLBACK").await.unwrap();
        outcome
    };
    run(20, "INSERT INTO page VALUES ('north', 'n')").await.unwrap();
    run(5, "INSERT INTO page VALUES ('south', 's')").await.unwrap();
    let stale = Err("FP001".to_owned());
    assert_eq!(run(19, "UPDATE page SET body = 'late' WHERE site = 'north'").await, stale);
    run(6, "UPDATE page SET body = 's2' WHERE site = 'south'").await.unwrap();
    assert_eq!(run(7, "UPDATE page SET site = 'north' WHERE site = 'south'").await, stale);
    assert_eq!(run(7, "DELETE FROM page WHERE site = 'north'").await, stale);
    run(21, "DELETE FROM page WHERE site = 'north'").await.unwrap();
    clean(client).await;
}

async fn nobody_may_do_anything_unasked(server: &Server, client: &Client) {
    client.batch_execute("CREATE ROLE app LOGIN").await.unwrap();
    let app = connect_as(server, "app").await;
    assert_eq!(guard(&app, 1, "exclusive").await.unwrap_err().0, "42501");
    client
        .batch_execute(
            "GRANT USAGE ON SCHEMA fencepost TO app;
             GRANT EXECUTE ON FUNCTION fencepost.guard(text, bigint, text, boolean) TO app;",
        )
        .await
        .unwrap();
    guard(&app, 1, "exclusive").await.unwrap();
    let forgets = app.batch_execute("DELETE FROM fencepost.mark").await.unwrap_err();
    assert_eq!(told(&forgets).0, "42501", "who may write must not be able to forget");
}

async fn try_write(client: &Client, round: i32, token: i64) -> String {
    let row = client.query_one("SELECT try_write($1, $2)", &[&round, &token]).await;
    row.unwrap().get(0)
}

const ROUNDS: u32 = 10_000;
/// Rounds run on that many resources at once, so that two processors have something to do.
const LANES: u32 = 4;

/// Two writers with tokens 10 and 11 start at once, ten thousand times. Whatever the order, a 10
/// never commits after an 11.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_never_commits_a_10_after_an_11() {
    let Some(server) = postgres() else { return };
    let client = install(&server).await;
    client
        .batch_execute(
            "CREATE TABLE written (place bigserial, round int, token bigint);
             -- Half of the resources are new when they are first written, half are known already:
             -- a row that is just being made keeps others out in another way than one that is there.
             INSERT INTO fencepost.mark SELECT 'r' || each FROM generate_series(0, 10000, 2) AS each;
             CREATE FUNCTION try_write(round int, t bigint) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN
                 PERFORM fencepost.guard('r' || round, t);
                 INSERT INTO written (round, token) VALUES (round, t);
                 RETURN 'written';
             EXCEPTION WHEN SQLSTATE 'FP001' THEN RETURN 'stale';
             END $$;",
        )
        .await
        .unwrap();
    let mut lanes = Vec::new();
    for lane in 0..LANES {
        let (ten, eleven) = (connect(&server).await, connect(&server).await);
        lanes.push(tokio::spawn(async move {
            let mut refused = 0_u32;
            for round in (lane..ROUNDS).step_by(LANES as usize) {
                let round = i32::try_from(round).unwrap();
                // Who is sent first changes from round to round; who is served first is up to the
                // database.
                let (a, b) = if round % 2 == 0 {
                    tokio::join!(try_write(&ten, round, 10), try_write(&eleven, round, 11))
                } else {
                    let (b, a) =
                        tokio::join!(try_write(&eleven, round, 11), try_write(&ten, round, 10));
                    (a, b)
                };
                assert_eq!(b, "written", "an 11 is never stale");
                refused += u32::from(a == "stale");
            }
            refused
        }));
    }
    let mut refused = 0;
    for lane in lanes {
        refused += lane.await.unwrap();
    }
    let late = "SELECT count(*) FROM written ten JOIN written eleven USING (round)
                WHERE ten.token = 10 AND eleven.token = 11 AND ten.place > eleven.place";
    let late: i64 = client.query_one(late, &[]).await.unwrap().get(0);
    assert_eq!(late, 0, "a 10 was written after an 11");
    let rows: i64 = client.query_one("SELECT count(*) FROM written", &[]).await.unwrap().get(0);
    assert_eq!(rows, i64::from(2 * ROUNDS - refused));
    // If one order never happened, the test would show nothing about it.
    assert!(refused > ROUNDS / 100, "a 10 came second only {refused} times");
    assert!(refused < ROUNDS - ROUNDS / 100, "a 10 came first only {} times", ROUNDS - refused);
}
