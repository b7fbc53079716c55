#!/bin/sh
# Before the package is removed, not before an upgrade: dpkg says so in a word, rpm
# with the number of versions that stay.
set -e
case "$1" in
remove | 0)
	if [ -d "$DPKG_ROOT/run/systemd/system" ]; then
		systemctl disable --now sluice.service
	fi
	;;
esac
