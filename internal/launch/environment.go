package launch

import (
	"fmt"
	"os"
	"strings"
)

// ProxyVariables are the variables from which the usual clients read the proxy.
var ProxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"}

// CAVariables are the variables from which the usual clients read the CAs that they trust.
var CAVariables = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "DENO_CERT", "AWS_CA_BUNDLE", "PERL_LWP_SSL_CA_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "npm_config_cafile"}

// passed are the variables that an agent has from its launcher without being named: where programs are, and how to
// write for whoever reads. Everything else may be a secret of the operator.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM"}

// environment returns the environment of an agent. own are the variables of its run, named are those that the operator
// has named. Nothing of this can change the proxy and the CA.
func environment(own, named []string, proxyURL, caFile string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		for _, p := range passed {
			if name == p {
				env = append(env, kv)
			}
		}
		if strings.HasPrefix(name, "LC_") {
			env = append(env, kv)
		}
	}
	env = append(append(env, "USER=agent", "LOGNAME=agent"), own...)
	return Environment(append(env, named...), proxyURL, caFile)
}

// named returns the variables that the operator has named, each with its value.
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

// Environment returns env with the proxy and the CA set for the usual clients. Of a variable that is there twice it
// keeps the last value. It removes variables that exempt hosts from the proxy or name another proxy.
func Environment(env []string, proxyURL, caFile string) []string {
	set := make(map[string]string)
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		set[name] = value
	}
	for _, name := range []string{"NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"} {
		delete(set, name)
	}
	for _, name := range ProxyVariables {
		set[name] = proxyURL
	}
	for _, name := range CAVariables {
		set[name] = caFile
	}
	set["NODE_USE_ENV_PROXY"] = "1" // Node 24 and later follow the proxy variables only when told to
	var out []string
	for name, value := range set {
		out = append(out, name+"="+value)
	}
	return out
}
