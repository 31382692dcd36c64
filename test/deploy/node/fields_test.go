package node

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFieldsNotCarriedOut(t *testing.T) {
	yes := true
	container := func(change func(*corev1.Container)) corev1.PodSpec {
		c := corev1.Container{Name: "c", Image: "i"}
		change(&c)
		return corev1.PodSpec{Containers: []corev1.Container{c}}
	}
	for name, test := range map[string]struct {
		spec corev1.PodSpec
		want []string
	}{
		"plain":        {container(func(*corev1.Container) {}), nil},
		"host network": {corev1.PodSpec{HostNetwork: true}, []string{"hostNetwork: true"}},
		"privileged": {container(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: &yes} }),
			[]string{"containers[0].securityContext.privileged: true"}},
		"seccomp profile of its own": {
			corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Localhost"}}},
			[]string{"securityContext.seccompProfile.type: Localhost"}},
		"grpc probe": {
			container(func(c *corev1.Container) {
				c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}
			}),
			[]string{"containers[0].livenessProbe.grpc"}},
		"http probe": {container(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/"}},
				PeriodSeconds: 1}
		}), nil},
		"host port": {container(func(c *corev1.Container) {
			c.Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}
		}),
			[]string{"containers[0].ports[0].hostPort"}},
		"block device": {container(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "d"}} }),
			[]string{"containers[0].volumeDevices[0].devicePath: ", "containers[0].volumeDevices[0].name: d"}},
		"volume of another kind": {
			corev1.PodSpec{
				Volumes: []corev1.Volume{
					{Name: "v", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s"}}}}},
			[]string{"volumes[0].nfs.path: ", "volumes[0].nfs.server: s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fieldsNotCarriedOut(&corev1.Pod{Spec: test.spec}); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
