# Runs a command with a PostgreSQL server of its own.
set -e
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
export PGDATA=$(mktemp -d) PGUSER=shop PGDATABASE=postgres
export PGHOST=$PGDATA
"$bin/initdb" -U shop -A trust >/dev/null
"$bin/pg_ctl" -w -l "$PGDATA/log" -o "-k $PGDATA -c listen_addresses=" start >/dev/null
code=0
"$@" || code=$?
"$bin/pg_ctl" -m fast stop >/dev/null
exit $code
