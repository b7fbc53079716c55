#!/bin/sh
# systemd reads its units again. The server is neither started nor restarted: the
# operator chooses the moment, between sales and one server after the other.
set -e
if [ -d "$DPKG_ROOT/run/systemd/system" ]; then
	systemctl daemon-reload
fi
