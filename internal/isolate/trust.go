package isolate

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the names of OpenSSL's folder, and Java's check of a public file
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"golang.org/x/sys/unix"
)

// A place has its own copy of the machine's certificate stores, to which pid 1 adds the interception CA. So programs
// trust it that read no variable.
const (
	copies   = "/run/agent/etc"
	hashed   = "/etc/ssl/certs"              // OpenSSL's, on most systems
	javaFile = "/etc/ssl/certs/java/cacerts" // Debian's, which all its JDKs use
)

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

// makeCopies makes room for the copies, which do not count for the agent.
func makeCopies() error {
	if err := os.MkdirAll(copies, 0o755); err != nil {
		return err
	}
	return cannotCover(copies, unix.Mount("tmpfs", copies, "tmpfs", bare, "mode=0755,size=64m,nr_inodes=16k"))
}

// ownResolverFile makes 127.0.0.1 the place's resolver, without the machine's search domains: the resolver knows every
// name, so that the first of a list would be taken.
func ownResolverFile() error {
	const name = "/etc/resolv.conf"
	at, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) { // missing, or a link into a hidden folder
		if at, err = os.Readlink(name); err != nil {
			return nil // 127.0.0.1 is the default
		}
		if !filepath.IsAbs(at) {
			at = filepath.Join(filepath.Dir(name), at)
		}
		if !isHidden(at) {
			return nil
		}
		err = errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644)) //nolint:gosec // public
	}
	if err != nil {
		return err
	}
	return coverFile(at, []byte("nameserver 127.0.0.1\noptions ndots:0\n"))
}

// coverFile mounts a file with this content over another.
func coverFile(name string, content []byte) error {
	own := filepath.Join(copies, strings.ReplaceAll(name, "/", "-"))
	if err := os.WriteFile(own, content, 0o644); err != nil { //nolint:gosec // public
		return err
	}
	return cannotCover(name, unix.Mount(own, name, "", unix.MS_BIND, ""))
}

// coverFolder mounts a copy over a folder of public files and links, if it exists.
func coverFolder(name, own string) error {
	from, err := os.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	if err := os.Mkdir(own, 0o755); err != nil {
		return err
	}
	to, err := os.OpenRoot(own)
	if err != nil {
		return err
	}
	defer to.Close()
	err = fs.WalkDir(from.FS(), ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch entry.Type() {
		case fs.ModeDir:
			return to.MkdirAll(at, 0o755)
		case fs.ModeSymlink:
			link, err := from.Readlink(at)
			if err != nil {
				return err
			}
			return to.Symlink(link, at)
		case 0:
			raw, err := from.ReadFile(at)
			if errors.Is(err, fs.ErrPermission) {
				return nil // the agent could not read it either
			}
			if err != nil {
				return err
			}
			return to.WriteFile(at, raw, 0o644)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return cannotCover(name, unix.Mount(own, name, "", unix.MS_BIND, ""))
}

func cannotCover(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s cannot be covered: %w", name, err)
	}
	return nil
}

// trust adds the CA, if there is one, to the place's stores.
func trust(ca []byte) error {
	if len(ca) == 0 {
		return nil
	}
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

// addHashed adds a certificate under the first free name of its hash.
func addHashed(hash string, cert []byte) error {
	if _, err := os.Stat(hashed); err != nil {
		return nil
	}
	for i := range 100 {
		name := fmt.Sprintf("%s/%s.%d", hashed, hash, i)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) //nolint:gosec // public
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Write(cert)
		return errors.Join(err, f.Close())
	}
	return nil
}

// subjectHash returns OpenSSL's X509_NAME_hash of the subject: of its text as UTF-8 in lower case, each run of spaces
// being one.
func subjectHash(c *x509.Certificate) (string, error) {
	var names []asn1.RawValue // each a SET of type and value
	if _, err := asn1.Unmarshal(c.RawSubject, &names); err != nil {
		return "", err
	}
	var canonical []byte
	for _, set := range names {
		var inside []byte
		for rest := set.Bytes; len(rest) > 0; {
			var pair struct {
				Type  asn1.ObjectIdentifier
				Value asn1.RawValue
			}
			var err error
			if rest, err = asn1.Unmarshal(rest, &pair); err != nil {
				return "", err
			}
			var text string
			if _, err := asn1.Unmarshal(pair.Value.FullBytes, &text); err == nil {
				text = strings.ToLower(strings.Join(strings.Fields(text), " "))
				pair.Value = asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(text)}
			}
			raw, err := asn1.Marshal(pair)
			if err != nil {
				return "", err
			}
			inside = append(inside, raw...)
		}
		raw, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: inside})
		if err != nil {
			return "", err
		}
		canonical = append(canonical, raw...)
	}
	sum := sha1.Sum(canonical) //nolint:gosec // a name
	return fmt.Sprintf("%08x", binary.LittleEndian.Uint32(sum[:])), nil
}

// writeJava replaces Java's store by one with the certificates of the machine and the CA.
func writeJava(ca *x509.Certificate) error {
	store := keystore.New()
	certificates := [][]byte{ca.Raw}
	for _, name := range resolved(bundles) {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
			certificates = append(certificates, block.Bytes)
		}
	}
	for i, raw := range certificates {
		err := store.SetTrustedCertificateEntry(fmt.Sprintf("ca%d", i), keystore.TrustedCertificateEntry{
			CreationTime: time.Now(), Certificate: keystore.Certificate{Type: "X.509", Content: raw}})
		if err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if err := store.Store(&out, []byte("changeit")); err != nil { // Java's own default; it protects nothing
		return err
	}
	return os.WriteFile(javaFile, out.Bytes(), 0o644) //nolint:gosec // public
}
