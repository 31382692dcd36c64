package config

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/strict"
)

// findings collects everything that is wrong with a configuration, so that one run reports all of it.
type findings struct {
	*strict.File
	path string
	// noSecrets has stand-ins take the place of secrets, whose files are elsewhere.
	noSecrets bool
	overTCP   []string // keys of endpoints over TCP
}

// secret reads a secret of at least minimum bytes.
func (f *findings) secret(path string, minimum int) (string, error) {
	if f.noSecrets { // one of its own for each file, in the form of Standard Webhooks, which suits all
		of := sha256.Sum256([]byte(path))
		return "whsec_" + base64.StdEncoding.EncodeToString(of[:]), nil
	}
	return files.ReadSecret(path, minimum)
}

func (f *findings) err() error { return f.Err(f.path + ": ") }

// A checker is a block with rules that tags cannot say. check adds its mistakes to f, and reads its files.
type checker interface{ check(key string, f *findings) }

// check checks a configuration by the tags of its types, and calls its checkers. It also sets the defaults of tags.
func (f *findings) check(c any) { f.checkValue("", reflect.ValueOf(c).Elem()) }

func (f *findings) checkValue(key string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.checkValue(key, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.checkValue(fmt.Sprintf("%s[%d]", key, i), v.Index(i))
		}
	case reflect.Struct:
		f.checkFields(key, v)
		if c, ok := v.Addr().Interface().(checker); ok {
			c.check(key, f)
		}
	}
}

func (f *findings) checkFields(key string, v reflect.Value) {
	for i := range v.NumField() {
		at := v.Type().Field(i)
		name, option, _ := strings.Cut(at.Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			f.checkFields(key, v.Field(i)) // the outer struct has the inlined struct's check
		case name != "-" && name != "":
			below := strings.TrimPrefix(key+"."+name, ".")
			f.checkTags(below, v.Field(i), at.Tag)
			f.checkValue(below, v.Field(i))
		}
	}
}

func (f *findings) checkTags(key string, v reflect.Value, tag reflect.StructTag) {
	required := tag.Get("need") != "" && v.Kind() != reflect.Struct
	switch {
	case required && (v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0):
		f.Add(key, "is required")
		return
	case required && v.Type() == reflect.TypeFor[[]string]() && slices.Contains(v.Interface().([]string), ""):
		f.Add(key, "has an empty item")
	}
	if allowed := strings.Fields(tag.Get("one")); len(allowed) > 0 {
		switch got := v.String(); {
		case got == "":
			v.SetString(allowed[0])
		case !slices.Contains(allowed, got):
			f.Add(key, "%.40q is none of %s%s", got, strings.Join(allowed, ", "), strict.Suggest(got, allowed))
			v.SetString(allowed[0])
		}
	}
	if tag.Get("is") == "address" && v.String() != "" {
		checkAddress(key, v.String(), f)
	}
	if !v.IsZero() {
		f.checkBounds(key, v, tag.Get("from"), tag.Get("to"))
	}
}

func (f *findings) checkBounds(key string, v reflect.Value, from, to string) {
	if to == "" {
		return
	}
	least, most := bound(from), bound(to)
	switch is := v.Int(); {
	case from == "" && is > most:
		f.Add(key, "%s is more than %s", shown(v, is), shown(v, most))
	case from != "" && (is < least || is > most):
		f.Add(key, "%s is not between %s and %s", shown(v, is), shown(v, least), shown(v, most))
	}
}

func bound(text string) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	d, _ := time.ParseDuration(text)
	return int64(d)
}

func shown(v reflect.Value, n int64) string {
	if v.Type() == reflect.TypeFor[Duration]() {
		return time.Duration(n).String()
	}
	return strconv.FormatInt(n, 10)
}

func readSecret(key, path string, minimum int, f *findings) string {
	secret, err := f.secret(path, minimum)
	if err != nil {
		f.Add(key, "%v", err)
	}
	return secret
}

func (e *Endpoint) check(key string, f *findings) { e.checkWith(key, Tokens{}, f) }

func (a *Admin) check(key string, f *findings) {
	a.checkWith(key, a.Tokens, f)
	for name, path := range map[string]string{".tokens.read": a.Tokens.Read, ".tokens.operate": a.Tokens.Operate} {
		if path == "" {
			continue
		}
		if readSecret(key+name, path, MinToken, f); a.TCP == "" {
			f.Add(key+name, "has no meaning without tcp: at a unix socket, the kernel identifies the caller's user")
		}
	}
}

// checkWith checks an endpoint that also admits callers with these tokens.
func (e *Endpoint) checkWith(key string, tokens Tokens, f *findings) {
	if e.Unix == "" && e.TCP == "" {
		f.Add(key, "needs unix, tcp or both")
	}
	if e.TCP != "" {
		f.checkTCP(key, e.TCP)
	}
	if e.TCP == "" && len(e.Callers) > 0 {
		f.Add(key+".callers",
			"has no meaning without tcp: at a unix socket, the kernel identifies the caller's user, for uids")
	}
	if e.Unix == "" && len(e.UIDs) > 0 {
		f.Add(key+".uids", "has no meaning without unix: over tcp, certificates identify the callers, for callers")
	}
	if e.TCP != "" && len(e.Callers) == 0 && tokens == (Tokens{}) {
		f.Add(key+".callers", "is required for tcp: only the callers that it lists may connect")
	}
	for i, pattern := range e.Callers {
		if err := identity.CheckPattern(pattern); err != nil {
			f.Add(fmt.Sprintf("%s.callers[%d]", key, i), "%v", err)
		}
	}
}

// Admits reports whether the caller may connect over TCP.
func (e *Endpoint) Admits(caller identity.ID) bool {
	return slices.ContainsFunc(e.Callers, caller.Matches)
}

func (p *Peer) check(key string, f *findings) {
	f.checkEither(key, p.Unix, p.TCP)
	switch {
	case p.Unix != "" && p.Name != "":
		f.Add(key+".name", "has no meaning with unix, where the path names the process")
	case p.Name != "":
		checkName(key+".name", p.Name, f)
	}
}

func checkName(key, name string, f *findings) {
	if err := identity.CheckName(name); err != nil {
		f.Add(key, "%v", err)
	}
}

func (f *findings) checkEither(key, unix, tcp string) {
	switch {
	case (unix == "") == (tcp == ""):
		f.Add(key, "needs either unix or tcp")
	case tcp != "":
		f.checkTCP(key, tcp)
	}
}

func (f *findings) checkTCP(key, address string) {
	if portIn(address) == 0 {
		f.Add(key+".tcp", "%q needs a port other than 0, so that others can connect", address)
	}
	f.overTCP = append(f.overTCP, key)
}

// checkTLS needs the checks of all endpoints before it.
func (p *Process) checkTLS(f *findings) {
	if p.Registrar != nil && p.Registrar.Unix != "" {
		f.Add("registrar.unix",
			"has no meaning: the registrar answers only over TCP, and knows its callers by their certificates")
	}
	p.TLS.check("tls.", p.Registrar != nil, f)
	for _, key := range f.overTCP {
		if p.TLS == nil {
			f.Add(key+".tcp", "needs tls: over TCP, each process must have a certificate that names it")
		}
	}
}

func (t *TLS) check(key string, registrar bool, f *findings) {
	if t != nil && (t.Certificate == "" || t.Key == "") == (t.Token == "" || t.Certificate+t.Key != "" || !registrar) {
		f.Add(key+"certificate", "is required together with key; in a pod with a registrar, set token instead of both")
	}
}

// String returns the endpoint as commands name it, by its socket if it has one, or nothing for an empty one.
func (e Endpoint) String() string { return Peer{Unix: e.Unix, TCP: e.TCP}.String() }

// String returns the endpoint as commands name it, or nothing for an empty one.
func (p Peer) String() string {
	switch {
	case p.Unix != "":
		return "unix:" + p.Unix
	case p.TCP != "":
		return "https://" + p.TCP
	}
	return ""
}

func checkAddress(key, address string, f *findings) {
	if _, port, err := net.SplitHostPort(address); err != nil || port != "0" && portIn(address) == 0 {
		f.Add(key, "%q is not a host and a port, as 127.0.0.1:8181 is", address)
	}
}

func portIn(address string) uint16 {
	_, s, _ := net.SplitHostPort(address)
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

func parseAddress(s string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return netip.AddrPortFrom(addr, 0), nil
	}
	return netip.ParseAddrPort(s)
}

func parseNetworks(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(list))
	for _, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is not an address range such as 10.0.0.0/8", s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func (c *Agent) check(key string, f *findings) {
	if c.UID == nil && len(c.GIDs) > 0 {
		f.Add(key+".gids", "has no meaning without %s.uid", key)
	}
}

func (c *Agent) keepFrom(f *findings, key string, e Endpoint) {
	if c.UID != nil && slices.Contains(e.UIDs, *c.UID) {
		f.Add(key+".uids", "%d is agent.uid: the agent must not reach this socket", *c.UID)
	}
}

type namedKey struct {
	at string
	SigningKey
}

func distinct(f *findings, keys ...namedKey) {
	for i, k := range keys {
		for _, other := range keys[:i] {
			if k.Key != "" && k.Key == other.Key {
				f.Add(k.at+".key", "%s is also the key of %s", k.Key, other.at)
			}
			if k.Issuer != "" && k.Issuer == other.Issuer {
				f.Add(k.at+".issuer", "%s is also the issuer of %s", k.Issuer, other.at)
			}
		}
	}
}

func (c *Custody) check(key string, f *findings) {
	if (c.Vault != nil) != (c.Type == "vault") {
		f.Add(key+".vault", "must be set if type is vault, and only then")
	}
	if (c.PKCS11 != nil) != (c.Type == "pkcs11") {
		f.Add(key+".pkcs11", "must be set if type is pkcs11, and only then")
	}
}

// check demands {role} in each name or path: a token that all roles share could sign for all roles.
func (c *VaultAuth) check(key string, f *findings) {
	if !one(c.AppRole != nil, c.Kubernetes != nil, c.TokenFile != "") {
		f.Add(key, "needs exactly one of appRole, kubernetes, tokenFile")
	}
	perRole := func(name, value string) {
		if value != "" && !strings.Contains(value, "{role}") {
			f.Add(key+name, "%q is the same for every role: write {role} where the roles differ", value)
		}
	}
	if a := c.AppRole; a != nil {
		perRole(".appRole.role", a.Role)
		perRole(".appRole.roleIDFile", a.RoleIDFile)
		perRole(".appRole.secretIDFile", a.SecretIDFile)
	}
	if k := c.Kubernetes; k != nil {
		perRole(".kubernetes.role", k.Role)
	}
	perRole(".tokenFile", c.TokenFile)
}

func one(conditions ...bool) bool {
	n := 0
	for _, holds := range conditions {
		if holds {
			n++
		}
	}
	return n == 1
}
