"""Verifies a signed fencing token with PyJWT and the cluster's key set alone.

Nothing of Fencepost is used here: what this accepts, any resource can check.
"""

import json
import sys
import urllib.request

import jwt

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def verify(signed, jwks_text, cluster, lock):
    """As docs/fencing.md shows it."""
    header = jwt.get_unverified_header(signed)
    if header.get("typ") != "fence+jwt":
        raise ValueError("not a fencing token")
    keys = {key["kid"]: jwt.PyJWK(key) for key in json.loads(jwks_text)["keys"]}
    claims = jwt.decode(signed, keys[header["kid"]].key, algorithms=["EdDSA"], issuer=cluster)
    if claims["sub"] != lock:
        raise ValueError("a token for another lock")
    return int(claims["tok"]), claims["mode"]


def changed(signed, at):
    """Another character there: one whose highest bit differs, so that the bytes do too."""
    place = ALPHABET.find(signed[at])
    other = "A" if place < 0 else ALPHABET[(place + 32) % 64]
    return signed[:at] + other + signed[at + 1 :]


def main():
    jwks_url, status, lock, token = sys.argv[1:]
    cluster = json.loads(status)["cluster_id"]
    signed = sys.stdin.read()
    with urllib.request.urlopen(jwks_url, timeout=30) as answer:
        jwks_text = answer.read().decode()
    found = verify(signed, jwks_text, cluster, lock)
    if found != (int(token), "exclusive"):
        sys.exit(f"the token says {found}, the environment says {token}")
    for at in range(len(signed)):
        try:
            verify(changed(signed, at), jwks_text, cluster, lock)
        except Exception:
            continue
        sys.exit(f"a token with character {at} changed was accepted")
    print(f"token {token} verified; {len(signed)} changed ones refused")


main()
