package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const defaultMode = 0o644

// files are the files of a volume of the kinds configMap, secret, downwardAPI or projected.
func (r *podRunner) files(ctx context.Context, v *corev1.Volume) (map[string]file, error) {
	files := map[string]file{}
	switch {
	case v.ConfigMap != nil:
		data, err := r.node.objects.configMap(ctx, r.pod.Namespace, v.ConfigMap.Name)
		return files, addItems(files, data, err, v.ConfigMap.Items, v.ConfigMap.Optional, v.ConfigMap.DefaultMode)
	case v.Secret != nil:
		data, err := r.node.objects.secret(ctx, r.pod.Namespace, v.Secret.SecretName)
		return files, addItems(files, data, err, v.Secret.Items, v.Secret.Optional, v.Secret.DefaultMode)
	case v.DownwardAPI != nil:
		return files, r.addFields(files, v.DownwardAPI.Items, v.DownwardAPI.DefaultMode)
	case v.Projected != nil:
		var lacks error
		for i, source := range v.Projected.Sources {
			key := fmt.Sprintf("%s/%d", v.Name, i)
			lacks = errors.Join(lacks, r.addSource(ctx, files, source, key, v.Projected.DefaultMode))
		}
		return files, lacks
	}
	return nil, fmt.Errorf("the volume %s is of a kind that is not carried out", v.Name)
}

// addSource adds the files of one source of a projected volume. key tells the sources of a pod apart.
func (r *podRunner) addSource(ctx context.Context, files map[string]file, s corev1.VolumeProjection, key string,
	mode *int32) error {
	switch {
	case s.ConfigMap != nil:
		data, err := r.node.objects.configMap(ctx, r.pod.Namespace, s.ConfigMap.Name)
		return addItems(files, data, err, s.ConfigMap.Items, s.ConfigMap.Optional, mode)
	case s.Secret != nil:
		data, err := r.node.objects.secret(ctx, r.pod.Namespace, s.Secret.Name)
		return addItems(files, data, err, s.Secret.Items, s.Secret.Optional, mode)
	case s.DownwardAPI != nil:
		return r.addFields(files, s.DownwardAPI.Items, mode)
	case s.ServiceAccountToken != nil:
		token, err := r.token(ctx, key, s.ServiceAccountToken)
		files[s.ServiceAccountToken.Path] = r.credential([]byte(token), mode)
		return err
	case s.PodCertificate != nil:
		return r.addCertificate(ctx, files, s.PodCertificate, key, mode)
	case s.ClusterTrustBundle != nil:
		return r.addTrustBundles(files, s.ClusterTrustBundle, mode)
	}
	return fmt.Errorf("source %s is of a kind that is not carried out", key)
}

// credential is a file for the pod's user alone, as far as the pod says who that is.
func (r *podRunner) credential(data []byte, mode *int32) file {
	f := file{data: data, mode: fileMode(mode, nil), uid: r.commonUser()}
	if f.uid >= 0 || r.fsGroup() >= 0 {
		f.mode = 0o600
	}
	return f
}

func addItems(files map[string]file, data map[string][]byte, err error, items []corev1.KeyToPath, optional *bool,
	mode *int32) error {
	if err != nil {
		if apierrors.IsNotFound(err) && isTrue(optional) {
			return nil
		}
		return err
	}
	if items == nil {
		for name, content := range data {
			files[name] = file{data: content, mode: fileMode(mode, nil), uid: -1}
		}
	}
	for _, item := range items {
		content, ok := data[item.Key]
		if !ok && !isTrue(optional) {
			return fmt.Errorf("references non-existent key %s", item.Key)
		}
		if ok {
			files[item.Path] = file{data: content, mode: fileMode(mode, item.Mode), uid: -1}
		}
	}
	return nil
}

func (r *podRunner) addFields(files map[string]file, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return fmt.Errorf("file %s: resourceFieldRef is not carried out", item.Path)
		}
		value, err := r.field(item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		files[item.Path] = file{data: []byte(value), mode: fileMode(mode, item.Mode), uid: -1}
	}
	return nil
}

// addTrustBundles adds the certificates of one bundle, or of all of a signer that the labels select, each once.
func (r *podRunner) addTrustBundles(files map[string]file, s *corev1.ClusterTrustBundleProjection, mode *int32) error {
	var found []*certificatesv1.ClusterTrustBundle
	if s.Name != nil {
		bundle, err := r.node.trustBundles.Get(*s.Name)
		if err != nil && !(apierrors.IsNotFound(err) && isTrue(s.Optional)) {
			return err
		}
		if err == nil {
			found = append(found, bundle)
		}
	} else {
		selector := labels.Everything()
		if s.LabelSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(s.LabelSelector); err != nil {
				return err
			}
		}
		all, err := r.node.trustBundles.List(selector)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(all, func(b *certificatesv1.ClusterTrustBundle) bool {
			return b.Spec.SignerName != *s.SignerName
		})
		if len(found) == 0 && !isTrue(s.Optional) {
			return fmt.Errorf("no ClusterTrustBundle of signer %s matches", *s.SignerName)
		}
	}
	certificates := map[string]bool{}
	for _, bundle := range found {
		for _, certificate := range strings.SplitAfter(bundle.Spec.TrustBundle, "-----END CERTIFICATE-----") {
			if certificate = strings.TrimSpace(certificate); certificate != "" {
				certificates[certificate+"\n"] = true
			}
		}
	}
	content := strings.Join(slices.Sorted(maps.Keys(certificates)), "")
	files[s.Path] = file{data: []byte(content), mode: fileMode(mode, nil), uid: -1}
	return nil
}

func fileMode(volume, item *int32) os.FileMode {
	switch {
	case item != nil:
		return os.FileMode(*item)
	case volume != nil:
		return os.FileMode(*volume)
	}
	return defaultMode
}
