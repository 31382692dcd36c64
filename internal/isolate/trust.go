package isolate

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A place has its own copy of the machine's certificate stores, to which pid 1 adds the interception CA. So programs
// trust it that read no variable.
const (
	hashed   = "/etc/ssl/certs"              // OpenSSL's, on most systems
	javaFile = "/etc/ssl/certs/java/cacerts" // Debian's, which all its JDKs use
)

// policies are the folders in which Chromium, Chrome and Chrome for Testing look for policies: they read no store.
var policies = []string{"/etc/chromium", "/etc/opt/chrome", "/etc/opt/chrome_for_testing"}

// bundles are the files that hold all trusted certificates.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/ssl/ca-bundle.pem",                            // SUSE
	"/etc/ssl/cert.pem",                                 // Alpine
}

// ownTrust mounts the copies of the stores, which are still without the CA.
func ownTrust() error {
	if err := coverFolder(hashed, filepath.Join(copies, "folder")); err != nil {
		return err
	}
	for _, name := range policies {
		if err := coverFolder(name, ownPolicies(name)); err != nil {
			return err
		}
	}
	for _, name := range resolved(bundles) {
		if below(name, hashed) {
			continue
		}
		raw, err := os.ReadFile(name)
		if err == nil {
			err = coverFile(name, raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// resolved returns the files that exist, once each.
func resolved(names []string) (out []string) {
	for _, name := range names {
		if at, err := filepath.EvalSymlinks(name); err == nil && !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// trust adds the CA, if there is one, to the place's stores.
func trust(ca []byte) error {
	if len(ca) == 0 {
		return nil
	}
	defer unix.Umask(unix.Umask(0o022)) // the agent reads what is made here
	block, _ := pem.Decode(ca)
	if block == nil {
		return errors.New("the file of the interception CA holds no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	for _, name := range resolved(bundles) {
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write(append([]byte("\n"), ca...))
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for _, name := range policies {
		if err := writePolicy(name, cert); err != nil {
			return err
		}
	}
	if hash, err := subjectHash(cert); err != nil {
		return err
	} else if err := addHashed(hash, ca); err != nil {
		return err
	}
	if _, err := os.Stat(javaFile); err == nil {
		return writeJava(cert)
	}
	return nil
}

// ownPolicies is the copy of a folder of policies.
func ownPolicies(folder string) string { return filepath.Join(copies, filepath.Base(folder)) }

// writePolicy makes a browser trust a certificate (the policy CACertificates of Chromium 128 and later), if its folder
// has a copy. A link that leads out of the copy is not followed: it could lead to a file of the machine.
func writePolicy(folder string, cert *x509.Certificate) error {
	own, err := os.OpenRoot(ownPolicies(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer own.Close()
	policy, err := json.Marshal(map[string][][]byte{"CACertificates": {cert.Raw}})
	if err != nil {
		return err
	}
	const managed = "policies/managed"
	err = errors.Join(own.MkdirAll(managed, 0o755), own.WriteFile(managed+"/mediator.json", policy, 0o644))
	if err != nil {
		fmt.Fprintf(os.Stderr, "mediator: a browser with policies in %s may not trust the mediator's CA: %v\n",
			folder, err)
	}
	return nil
}
