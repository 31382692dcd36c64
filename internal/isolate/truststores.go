package isolate

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // the names of OpenSSL's folder, and Java's check of a public file
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
)

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
	var names pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &names); err != nil {
		return "", err
	}
	var canonical []byte
	for _, set := range names {
		for i, pair := range set {
			if text, ok := pair.Value.(string); ok {
				text = strings.ToLower(strings.Join(strings.Fields(text), " "))
				set[i].Value = asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(text)}
			}
		}
		raw, err := asn1.Marshal(set)
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
