package launch

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// ProxyVariables are the variables from which common clients read the proxy.
var ProxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}

// CAVariables are the variables from which common clients read trusted CAs.
var CAVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO", "DENO_CERT", "AWS_CA_BUNDLE", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	"npm_config_cafile", "PIP_CERT", "HTTPLIB2_CA_CERTS", "CARGO_HTTP_CAINFO", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"}

// passed are the launcher's variables that an agent gets by default. Others may be secrets of the operator.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM"}

// environment returns the environment of an agent: own are the variables of its run, named those of the operator.
// Neither can change the proxy and the CA.
func environment(own, named []string, proxyURL, caFile string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	env = append(append(env, "USER=agent", "LOGNAME=agent"), own...)
	return Environment(append(env, named...), proxyURL, caFile)
}

func named(env []string) ([]string, error) {
	var out []string
	for _, kv := range env {
		name, _, valued := strings.Cut(kv, "=")
		if name == "" || strings.ContainsRune(kv, 0) {
			return nil, fmt.Errorf("--env %q names no variable", name)
		}
		if !valued {
			value, set := os.LookupEnv(name)
			if !set {
				return nil, fmt.Errorf("--env %s: the variable is not set here", name)
			}
			kv = name + "=" + value
		}
		out = append(out, kv)
	}
	return out, nil
}

// Exempting are the variables that exempt hosts from the proxy or name another proxy.
var Exempting = []string{"NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"}

// Variables returns the names, in order, and the values of the variables that give common clients the proxy and the CA.
func Variables(proxyURL, caFile string) (names []string, values map[string]string) {
	values = make(map[string]string)
	for _, name := range ProxyVariables {
		values[name] = proxyURL
	}
	for _, name := range CAVariables {
		values[name] = caFile
	}
	values[nodeVariable] = "1"
	return slices.Concat(ProxyVariables, CAVariables, []string{nodeVariable}), values
}

// nodeVariable makes Node 24 and later follow the proxy variables.
const nodeVariable = "NODE_USE_ENV_PROXY"

// Environment returns env with the proxy and the CA for common clients, and without the variables in Exempting. The
// last of several values of a variable counts. With an empty proxyURL, no variable names a proxy: none is needed.
func Environment(env []string, proxyURL, caFile string) []string {
	set := make(map[string]string)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	for _, name := range Exempting {
		delete(set, name)
	}
	_, values := Variables(proxyURL, caFile)
	maps.Copy(set, values)
	if proxyURL == "" {
		for _, name := range append(ProxyVariables, nodeVariable) {
			delete(set, name)
		}
	}
	var out []string
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}
