package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// carriedOut lists the fields of a pod's spec that the node carries out, that only concern the control plane
// (scheduling, admission, resources: the machine's limits are not set), or, with "=", the values that ask for nothing.
// "[]" stands for each element of a list; a field that is named covers all below it.
var carriedOut = strings.Fields(`
	activeDeadlineSeconds affinity automountServiceAccountToken dnsPolicy=ClusterFirst dnsPolicy=Default
	enableServiceLinks hostAliases hostname imagePullSecrets nodeName nodeSelector overhead preemptionPolicy priority
	priorityClassName resources restartPolicy schedulerName schedulingGates serviceAccount serviceAccountName subdomain
	terminationGracePeriodSeconds tolerations topologySpreadConstraints
	hostNetwork=false hostPID=false hostIPC=false shareProcessNamespace=false
	securityContext.fsGroup securityContext.fsGroupChangePolicy securityContext.runAsGroup
	securityContext.runAsNonRoot securityContext.runAsUser securityContext.seccompProfile.type=RuntimeDefault
	securityContext.seccompProfile.type=Unconfined securityContext.supplementalGroups
	volumes[].name volumes[].configMap volumes[].secret volumes[].downwardAPI volumes[].emptyDir volumes[].projected
	volumes[].persistentVolumeClaim volumes[].hostPath.path volumes[].hostPath.type
	C.name C.image C.imagePullPolicy C.command C.args C.workingDir C.ports C.env C.envFrom C.resources C.resizePolicy
	C.volumeMounts[].name C.volumeMounts[].mountPath C.volumeMounts[].readOnly C.volumeMounts[].subPath
	C.terminationMessagePath C.terminationMessagePolicy C.restartPolicy=Always
	C.livenessProbe C.readinessProbe C.startupProbe C.lifecycle.preStop C.lifecycle.postStart
	C.securityContext.allowPrivilegeEscalation C.securityContext.capabilities C.securityContext.privileged=false
	C.securityContext.readOnlyRootFilesystem C.securityContext.runAsGroup C.securityContext.runAsNonRoot
	C.securityContext.runAsUser C.securityContext.seccompProfile.type=RuntimeDefault
	C.securityContext.seccompProfile.type=Unconfined
	C.stdin=false C.tty=false`)

// notCarried are fields below those of carriedOut that the node does not carry out.
var notCarried = strings.Fields(`
	C.livenessProbe.grpc C.readinessProbe.grpc C.startupProbe.grpc C.ports[].hostPort C.lifecycle.preStop.tcpSocket
	C.lifecycle.postStart.tcpSocket`)

// fieldsNotCarriedOut names each field of the pod's spec that the node would ignore, with its value. A pod with one of
// them does not run: a test that believes in a field must not pass because nobody looked at it.
func fieldsNotCarriedOut(pod *corev1.Pod) []string {
	raw, err := json.Marshal(pod.Spec)
	if err != nil {
		return []string{err.Error()}
	}
	var spec map[string]any
	if err := json.Unmarshal(raw, &spec); err != nil {
		return []string{err.Error()}
	}
	var fields []string
	for field, value := range spec {
		rule := field
		if field == "containers" || field == "initContainers" {
			rule = "C"
		}
		fields = append(fields, unknown(field, rule, value)...)
	}
	sort.Strings(fields)
	return fields
}

// unknown walks one field. rule is its path as the tables above write it.
func unknown(path, rule string, value any) []string {
	if slices.Contains(notCarried, rule) {
		return []string{path}
	}
	if slices.Contains(carriedOut, fmt.Sprintf("%s=%v", rule, value)) {
		return nil
	}
	var fields []string
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		for key, v := range value {
			fields = append(fields, unknown(path+"."+key, rule+"."+key, v)...)
		}
		return fields
	case []any:
		element := rule + "[]"
		if rule == "C" {
			element = "C"
		}
		for i, v := range value {
			fields = append(fields, unknown(fmt.Sprintf("%s[%d]", path, i), element, v)...)
		}
		return fields
	}
	if covered(rule) {
		return nil // below a field that is carried out as a whole
	}
	return []string{fmt.Sprintf("%s: %v", path, value)}
}

// covered reports whether a field above rule is carried out as a whole.
func covered(rule string) bool {
	for {
		if slices.Contains(carriedOut, rule) {
			return true
		}
		at := strings.LastIndexAny(rule, ".[")
		if at < 0 {
			return false
		}
		rule = rule[:at]
	}
}
