package intercept_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/test/full"
)

// Each client sends a CONNECT, verifies the certificate for HOST, and prints the answer. BARE is HOST without brackets.
var trustingClients = map[string][]string{
	"curl": {"curl", "-sS", "--noproxy", "", "--proxy", "http://PROXY", "--cacert", "ROOTS", "https://HOST/"},
	"openssl": {"sh", "-c", `printf 'GET / HTTP/1.0\r\nHost: HOST\r\n\r\n' |
		openssl s_client -quiet -proxy PROXY -connect HOST:443 -CAfile ROOTS -verify_return_error $0 2>&1`, "VERIFY"},
	"python": {"/usr/bin/python3", "-c", `import socket, ssl
host, port = "PROXY".split(":")
s = socket.create_connection((host, int(port)))
s.sendall(b"CONNECT HOST:443 HTTP/1.1\r\nHost: HOST:443\r\n\r\n")
assert b" 200 " in s.recv(4096)
s = ssl.create_default_context(cafile="ROOTS").wrap_socket(s, server_hostname="BARE")
s.sendall(b"GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n")
while text := s.recv(4096): print(text.decode())`},
	"node": {"node", "-e", `const [host, port] = "PROXY".split(":");
const { X509Certificate } = require("crypto"); // the check of Debian 12's Node knows no IPv6
const byAddress = (host, cert) => new X509Certificate(cert.raw).checkIP(host) ? undefined : new Error("no match");
const name = require("net").isIP("BARE") ? { host: "BARE", checkServerIdentity: byAddress } : { servername: "BARE" };
const fail = (e) => { console.log(e.message); process.exit(1); };
require("http").request({ host, port, method: "CONNECT", path: "HOST:443" }).on("connect", (_, socket) => {
  const ca = require("fs").readFileSync("ROOTS"), get = "GET / HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
  const s = require("tls").connect({ socket, ca, ...name }, () => s.write(get));
  s.on("data", (d) => console.log(d.toString())).on("error", fail);
}).on("error", fail).end();`},
}

// Clients believe the CA for every host of its constraints, name or address. OpenSSL checks even an address in the
// common name against the DNS constraints.
func TestClientsTrustEachHost(t *testing.T) {
	full.Only(t, "curl, openssl, python and node")
	hosts := []string{"a.example", "192.0.2.1", "[2001:db8::1]"}
	bare := func(host string) string { return strings.Trim(host, "[]") }
	for name, constrained := range map[string][]string{"names and addresses": {"a.example", "192.0.2.1", "2001:db8::1",
		"a.example"}, "addresses": {"192.0.2.1", "2001:db8::1"}, "names": {"a.example"}} {
		constraints, err := intercept.Constrain(constrained)
		must(t, err)
		ca, err := intercept.NewCA(intercept.CAOptions{Now: time.Now, Constraints: constraints})
		must(t, err)
		file := filepath.Join(t.TempDir(), "ca.pem")
		must(t, os.WriteFile(file, ca.CertificatePEM(), 0o600))
		r := newRig(t, func(o *intercept.Options) {
			o.CA = ca
			o.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte("reached " + r.Host))
			})
		})
		for _, host := range hosts {
			verify := "-verify_hostname " + host
			if host != "a.example" {
				verify = "-verify_ip " + bare(host)
			}
			believed := false
			for _, c := range constrained {
				believed = believed || c == bare(host)
			}
			for client, args := range trustingClients {
				if client == "openssl" && strings.HasPrefix(host, "[") { // it writes no brackets into a CONNECT
					continue
				}
				t.Run(name+"/"+host+"/"+client, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					fill := strings.NewReplacer("PROXY", r.Addr, "HOST", host, "BARE", bare(host), "VERIFY", verify,
						"ROOTS", file)
					var filled []string
					for _, a := range args {
						filled = append(filled, fill.Replace(a))
					}
					//nolint:gosec // the table's
					out, err := exec.CommandContext(ctx, filled[0], filled[1:]...).CombinedOutput()
					if got := err == nil && strings.Contains(string(out), "reached "+host); got != believed {
						t.Errorf("believed: %t, want %t: %v %s", got, believed, err, out)
					}
				})
			}
		}
	}
}
