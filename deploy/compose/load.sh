#!/bin/sh
# A small load for docker-compose.yml: tenants of config/api.yaml, some of them above their limits. It ends after an hour,
# and Compose starts it again.
#
#     TARGET=http://127.0.0.1:10000 DURATION=10 sh deploy/compose/load.sh
set -eu

target=${TARGET:-http://envoy:10000}
duration=${DURATION:-3600} # in seconds

# Sends so many requests a minute, evenly, on one connection.
send() {
    per_minute=$1 tenant=$2 path=$3
    timeout "$duration" curl --silent --output /dev/null --rate "$per_minute/m" --header "x-tenant: $tenant" \
        "$target$path?request=[1-1000000]" || true
}

send 1200 acme / &              # gold, 6000 a minute: far below
send 600 partner-blue / &       # gold too, by the pattern
send 30 newcomer / &            # free, 10 a minute: two of three are refused
send 6 globex / &               # 3 an hour: nearly all are refused
send 6 acme /export &           # 3 a minute: every other one is refused
send 240 acme /search &         # 2 a second, in shadow mode: would be refused
send 12 partner-blue /payments & # 5 a minute, and closed when Redis does not answer
wait
