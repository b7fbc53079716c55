package outbound

import "testing"

func TestGuard(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:80": true, "10.1.2.3:443": true, "192.168.0.1:8080": true, "[::1]:80": true, "[fd00::1]:80": true,
		"93.184.216.34:443":  true,
		"100.100.100.201:80": true, "[64:ff9b:2::1]:80": true, "192.0.0.191:80": true, "[2003::1]:80": true,
		"169.254.169.254:80": false, "[::ffff:169.254.169.254]:80": false, "[fe80::1]:80": false, "[fe80::1%eth0]:80": false,
		"0.0.0.0:80": false, "[::]:80": false, "224.0.0.1:80": false,
		"[fd00:ec2::254]:80": false, "100.100.100.200:80": false, "[::ffff:100.100.100.200]:80": false,
		"168.63.129.16:80": false, "192.0.0.192:80": false, "[::ffff:192.0.0.192]:80": false,
		"[64:ff9b:1::a9fe:a9fe]:80": false, "[64:ff9b:1:fffe:a9fe:a9:fe00:0]:80": false, "[2002:a9fe:a9fe::1]:80": false,
		"[64:ff9b::a9fe:a9fe]:80": false, "nonsense": false,
	} {
		if err := guard("tcp", address, nil); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
}
