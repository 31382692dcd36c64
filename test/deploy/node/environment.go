package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
)

// environment is what a container's process finds in its environment: the image's, the Services', and its own
// variables.
func (r *podRunner) environment(ctx context.Context, image Image, c *corev1.Container) ([]string, error) {
	values := map[string]string{
		"HOSTNAME":                r.hostname(),
		"KUBERNETES_SERVICE_HOST": APIService,
		"KUBERNETES_SERVICE_PORT": "443",
	}
	for _, e := range image.Env {
		name, value, _ := strings.Cut(e, "=")
		values[name] = value
	}
	if links := r.pod.Spec.EnableServiceLinks; links == nil || *links {
		if err := r.serviceLinks(values); err != nil {
			return nil, err
		}
	}
	for _, from := range c.EnvFrom {
		if err := r.environmentFrom(ctx, from, values); err != nil {
			return nil, err
		}
	}
	for _, e := range c.Env {
		value, found := expand(e.Value, values), true
		if e.ValueFrom != nil {
			var err error
			if value, found, err = r.valueFrom(ctx, e.ValueFrom); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		if found {
			values[e.Name] = value
		}
	}
	var environment []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environment = append(environment, name+"="+values[name])
	}
	return environment, nil
}

// serviceLinks adds the variables that name the addresses of the namespace's Services.
func (r *podRunner) serviceLinks(values map[string]string) error {
	services, err := r.node.services.Services(r.pod.Namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		values[name+"_SERVICE_HOST"] = s.Spec.ClusterIP
		values[name+"_SERVICE_PORT"] = fmt.Sprint(s.Spec.Ports[0].Port)
	}
	return nil
}

func (r *podRunner) environmentFrom(ctx context.Context, from corev1.EnvFromSource, values map[string]string) error {
	var data map[string][]byte
	var err error
	var optional *bool
	switch {
	case from.ConfigMapRef != nil:
		optional = from.ConfigMapRef.Optional
		data, err = r.node.objects.configMap(ctx, r.pod.Namespace, from.ConfigMapRef.Name)
	case from.SecretRef != nil:
		optional = from.SecretRef.Optional
		data, err = r.node.objects.secret(ctx, r.pod.Namespace, from.SecretRef.Name)
	}
	if apierrors.IsNotFound(err) && isTrue(optional) {
		return nil
	}
	for key, value := range data {
		values[from.Prefix+key] = string(value)
	}
	return err
}

func (r *podRunner) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = r.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := r.node.objects.configMap(ctx, r.pod.Namespace, ref.Name)
		return key(data, err, ref.Name, ref.Key, ref.Optional)
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := r.node.objects.secret(ctx, r.pod.Namespace, ref.Name)
		return key(data, err, ref.Name, ref.Key, ref.Optional)
	}
	return "", false, fmt.Errorf("this source of a value is not carried out: %s", from)
}

func key(data map[string][]byte, err error, object, key string, optional *bool) (string, bool, error) {
	value, ok := data[key]
	switch {
	case isTrue(optional) && (apierrors.IsNotFound(err) || err == nil && !ok):
		return "", false, nil
	case err != nil:
		return "", false, err
	case !ok:
		return "", false, fmt.Errorf("couldn't find key %s in %s/%s", key, object, object)
	}
	return string(value), true, nil
}

// field is a pod's field as the downward API gives it.
func (r *podRunner) field(path string) (string, error) {
	pod := r.current()
	for prefix, all := range map[string]map[string]string{"metadata.labels": pod.Labels,
		"metadata.annotations": pod.Annotations} {
		if path == prefix {
			var lines []string
			for _, name := range slices.Sorted(maps.Keys(all)) {
				lines = append(lines, fmt.Sprintf("%s=%q", name, all[name]))
			}
			return strings.Join(lines, "\n"), nil
		}
		if name, ok := strings.CutPrefix(path, prefix+"['"); ok {
			return all[strings.TrimSuffix(name, "']")], nil
		}
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return Address, nil
	case "status.podIP", "status.podIPs":
		return r.network.address, nil
	}
	return "", fmt.Errorf("the field %s is not carried out", path)
}

// expand replaces $(NAME) by the value of a known variable; $$ is one $.
func expand(text string, values map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '$' && i+1 < len(text) {
			if text[i+1] == '$' {
				out.WriteByte('$')
				i++
				continue
			}
			if end := strings.IndexByte(text[i:], ')'); text[i+1] == '(' && end > 0 {
				if value, ok := values[text[i+2:i+end]]; ok {
					out.WriteString(value)
					i += end
					continue
				}
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

func isTrue(b *bool) bool { return b != nil && *b }
