#!/usr/bin/env bash
# usage: scripts/install.sh WORD...  (as in present below: redis, postgres, ...)
#
# Installs the Debian packages of what is named and missing. Does nothing, and
# needs no rights, when nothing is missing. Services that a package would start
# are kept from starting: tests start private instances of their own.
set -euo pipefail

on_path() { command -v "$1" >/dev/null 2>&1; }

# present NAME: the machine has it, or the environment names a server to use
# instead. Debian keeps PostgreSQL's programs in a folder per version.
present() {
	case $1 in
	redis) [ -n "${SLUICE_TEST_REDIS_URL:-}" ] || on_path redis-server ;;
	postgres) [ -n "${SLUICE_TEST_POSTGRES_URL:-}" ] || on_path initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null ;;
	pgbouncer) on_path pgbouncer || [ -x /usr/sbin/pgbouncer ] ;;
	mysql) [ -n "${SLUICE_TEST_MYSQL_URL:-}" ] || { on_path mariadb-install-db && { on_path mariadbd || [ -x /usr/sbin/mariadbd ]; }; } ;;
	chromium) on_path chromium || on_path google-chrome ;;
	nginx) on_path nginx || [ -x /usr/sbin/nginx ] ;;
	prometheus) on_path promtool ;;
	php | node | npm | tsc | python3 | openssl | jq | wrk) on_path "$1" ;;
	java) on_path java && on_path javac ;;
	gcc) on_path gcc && [ -e /usr/include/stdio.h ] ;;
	*) echo "scripts/install.sh: unknown name $1" >&2; exit 1 ;;
	esac
}

packages_of() {
	case $1 in
	redis) echo redis-server ;;
	postgres) echo postgresql ;;
	pgbouncer) echo pgbouncer ;;
	mysql) echo mariadb-server ;;
	chromium) echo chromium ;;
	nginx) echo nginx-light ;;
	php) echo php-cli ;;
	node) echo nodejs ;;
	tsc) echo node-typescript ;;
	java) echo default-jdk-headless ;;
	npm | prometheus | python3 | openssl | jq | wrk) echo "$1" ;;
	gcc) echo gcc libc6-dev ;; # the race detector needs cgo
	esac
}

missing=()
for name in "$@"; do
	if ! present "$name"; then
		read -ra packages < <(packages_of "$name")
		missing+=("${packages[@]}")
	fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! on_path apt-get; then
	echo "missing: ${missing[*]} (names of Debian packages); there is no apt-get here to install them with" >&2
	exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! on_path sudo; then
		echo "missing: ${missing[*]}; install them as root, or have sudo, or run: make test-go" >&2
		exit 1
	fi
	root=(sudo)
	[ -t 0 ] || root=(sudo -n)
fi

# invoke-rc.d and systemd's helper ask this file before they start a service.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
	trap '"${root[@]}" rm -f $policy' EXIT
	printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee $policy >/dev/null
	"${root[@]}" chmod 755 $policy
fi

echo "installing ${missing[*]}"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
"${apt[@]}" update </dev/null || echo "apt-get update failed; trying with the lists at hand" >&2
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null
for name in "$@"; do
	if ! present "$name"; then
		echo "scripts/install.sh: $name is still missing after the installation" >&2
		exit 1
	fi
done
