package node

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// objectAge is how old a ConfigMap or Secret may be that a pod gets; a kubelet takes up to a minute.
const objectAge = 2 * time.Second

// objects reads ConfigMaps and Secrets one by one, as the API server allows it to a node, and remembers them for a
// while. Pods that need the same one at the same time share one reading.
type objects struct {
	client  kubernetes.Interface
	reading singleflight.Group

	mu    sync.Mutex // guards known
	known map[string]object
}

type object struct {
	data map[string][]byte
	read time.Time
}

func (o *objects) configMap(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return o.get("configmap/"+namespace+"/"+name, func() (map[string][]byte, error) {
		found, err := o.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		data := map[string][]byte{}
		for key, value := range found.Data {
			data[key] = []byte(value)
		}
		for key, value := range found.BinaryData {
			data[key] = value
		}
		return data, nil
	})
}

func (o *objects) secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	return o.get("secret/"+namespace+"/"+name, func() (map[string][]byte, error) {
		found, err := o.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return found.Data, nil
	})
}

// get returns what it remembers, or reads. Failures are not remembered.
func (o *objects) get(key string, read func() (map[string][]byte, error)) (map[string][]byte, error) {
	o.mu.Lock()
	known, ok := o.known[key]
	o.mu.Unlock()
	if ok && time.Since(known.read) < objectAge {
		return known.data, nil
	}
	got, err, _ := o.reading.Do(key, func() (any, error) {
		data, err := read()
		if err != nil {
			return nil, err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.known[key] = object{data: data, read: time.Now()}
		return data, nil
	})
	if err != nil {
		return nil, err
	}
	return got.(map[string][]byte), nil
}
