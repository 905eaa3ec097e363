-- Fencepost's rule inside PostgreSQL (12 or later). Run this file once in each database that holds
-- fenced data; running it again changes nothing that is stored.
--
-- A write names its token, in the same transaction as the write itself:
--
--     BEGIN;
--     SELECT fencepost.guard('accounts', 11);
--     UPDATE accounts SET balance = balance - 5 WHERE id = 1;
--     COMMIT;
--
-- guard() raises an error, and so ends the transaction, if a later holder has been there. If not, it
-- remembers the token and keeps others of the same resource out until the transaction ends. So a
-- transaction with token 10 can never commit after one with token 11.
--
-- Or the table demands a token by itself, whatever the statement says:
--
--     CREATE TRIGGER fenced BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON accounts
--         FOR EACH STATEMENT EXECUTE FUNCTION fencepost.guard_table('accounts');
--     BEGIN;
--     SELECT set_config('fencepost.token', '11', true);
--     UPDATE accounts SET balance = balance - 5 WHERE id = 1;
--     COMMIT;
--
-- With guard_row('column') and FOR EACH ROW, every value of that column is a resource of its own.
--
-- Nobody but the owner may do anything here until it is granted:
--
--     GRANT USAGE ON SCHEMA fencepost TO app;
--     GRANT EXECUTE ON FUNCTION fencepost.guard(text, bigint, text, boolean) TO app;
--
-- Errors have these codes: FP001 the token is stale; FP002 it was used already; FP003 an operator
-- released its lock by force; FP004 it is no token, or the mode is unknown; FP005 there is none.

BEGIN;

CREATE SCHEMA IF NOT EXISTS fencepost;

CREATE TABLE IF NOT EXISTS fencepost.mark (
    resource text PRIMARY KEY CHECK (resource <> '' AND octet_length(resource) <= 1024),
    -- The highest exclusive token that was accepted; 0 if there was none.
    highest bigint NOT NULL DEFAULT 0 CHECK (highest >= 0),
    -- Tokens below it were taken away by an operator.
    below bigint NOT NULL DEFAULT 0 CHECK (below >= 0),
    -- Single tokens, of shared holders and permits, that were taken away.
    taken bigint[] NOT NULL DEFAULT '{}' CHECK (cardinality(taken) <= 1024)
);

-- Checks a token, raises the mark if the token is exclusive and higher, and keeps the resource for
-- this transaction: alone if the token is exclusive, together with other shared ones and permits
-- if not. With once, an exclusive token writes in one transaction only.
CREATE OR REPLACE FUNCTION fencepost.guard(
    resource text, token bigint, mode text DEFAULT 'exclusive', once boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    seen fencepost.mark%ROWTYPE;
BEGIN
    IF token IS NULL OR token < 1 THEN
        RAISE EXCEPTION USING ERRCODE = 'FP004',
            MESSAGE = format('%s is no token: a token is at least 1', coalesce(token::text, 'NULL'));
    END IF;
    IF mode IS NULL OR mode NOT IN ('exclusive', 'shared', 'permit') THEN
        RAISE EXCEPTION USING ERRCODE = 'FP004',
            MESSAGE = 'the mode is none of exclusive, shared and permit';
    END IF;
    -- There must be a row before it can be locked. If another transaction is just making it, this
    -- waits for its end.
    PERFORM 1 FROM fencepost.mark m WHERE m.resource = guard.resource;
    IF NOT FOUND THEN
        INSERT INTO fencepost.mark (resource) VALUES (guard.resource) ON CONFLICT DO NOTHING;
    END IF;
    -- The lock on the row is what puts the transactions in order. Whoever waited for it reads the
    -- row as the one before has left it.
    IF mode = 'exclusive' THEN
        SELECT * INTO STRICT seen FROM fencepost.mark m WHERE m.resource = guard.resource
            FOR NO KEY UPDATE;
    ELSE
        SELECT * INTO STRICT seen FROM fencepost.mark m WHERE m.resource = guard.resource
            FOR SHARE;
    END IF;
    IF token < seen.highest THEN
        RAISE EXCEPTION USING ERRCODE = 'FP001',
            MESSAGE = format('Token %s is stale, last seen was %s', token, seen.highest),
            HINT = 'A later holder has the lock. Acquire it again.';
    END IF;
    IF token < seen.below THEN
        RAISE EXCEPTION USING ERRCODE = 'FP003',
            MESSAGE = format('Token %s is below the fence floor %s: its lock was released by force',
                token, seen.below);
    END IF;
    IF token = ANY (seen.taken) THEN
        RAISE EXCEPTION USING ERRCODE = 'FP003',
            MESSAGE = format('Token %s was taken away: its lock was released by force', token);
    END IF;
    IF token = seen.highest AND coalesce(once, true) THEN
        RAISE EXCEPTION USING ERRCODE = 'FP002', MESSAGE = format('Token %s already used', token);
    END IF;
    IF mode = 'exclusive' AND token > seen.highest THEN
        UPDATE fencepost.mark m
            SET highest = token,
                taken = ARRAY(SELECT each FROM unnest(m.taken) AS each WHERE each >= token)
            WHERE m.resource = guard.resource;
    END IF;
END
$$;

-- Takes over what an operator took away: every token under below, and the listed ones.
CREATE OR REPLACE FUNCTION fencepost.raise_floor(
    resource text, below bigint, taken bigint[] DEFAULT '{}'
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO fencepost.mark AS m (resource, below, taken)
        VALUES (raise_floor.resource, coalesce(raise_floor.below, 0),
            coalesce(raise_floor.taken, '{}'))
        ON CONFLICT ON CONSTRAINT mark_pkey DO UPDATE SET
            below = greatest(m.below, excluded.below),
            taken = ARRAY(
                SELECT DISTINCT each FROM unnest(m.taken || excluded.taken) AS each
                WHERE each >= greatest(m.highest, m.below, excluded.below) ORDER BY each);
END
$$;

-- The token of this transaction, as set_config('fencepost.token', ..., true) has set it.
CREATE OR REPLACE FUNCTION fencepost.guard_with_settings(resource text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    token text := nullif(current_setting('fencepost.token', true), '');
    mode text := nullif(current_setting('fencepost.mode', true), '');
BEGIN
    IF token IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'FP005',
            MESSAGE = format('no token was given for %L', resource),
            HINT = 'Run SELECT set_config(''fencepost.token'', ''<token>'', true) first, in the '
                'same transaction.';
    END IF;
    IF token !~ '^[1-9][0-9]{0,18}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'FP004',
            MESSAGE = 'fencepost.token is no token: write it in decimal digits';
    END IF;
    PERFORM fencepost.guard(resource, token::bigint, coalesce(mode, 'exclusive'), false);
END
$$;

-- For a trigger FOR EACH STATEMENT: the table is one resource, named by the argument.
CREATE OR REPLACE FUNCTION fencepost.guard_table() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fencepost.guard_with_settings(TG_ARGV[0]);
    RETURN NULL;
END
$$;

-- For a trigger BEFORE ... FOR EACH ROW: the named column says which resource a row belongs to. A
-- row that moves from one resource to another needs to be allowed by both.
CREATE OR REPLACE FUNCTION fencepost.guard_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old_name text;
    new_name text;
BEGIN
    IF TG_OP <> 'INSERT' THEN
        old_name := to_jsonb(OLD) ->> TG_ARGV[0];
        PERFORM fencepost.guard_with_settings(old_name);
    END IF;
    IF TG_OP <> 'DELETE' THEN
        new_name := to_jsonb(NEW) ->> TG_ARGV[0];
        IF new_name IS DISTINCT FROM old_name OR TG_OP = 'INSERT' THEN
            PERFORM fencepost.guard_with_settings(new_name);
        END IF;
        RETURN NEW;
    END IF;
    RETURN OLD;
END
$$;

REVOKE ALL ON SCHEMA fencepost FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA fencepost FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA fencepost FROM PUBLIC;

COMMIT;
