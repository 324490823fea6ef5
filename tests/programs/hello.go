// hello serve ADDRESS PORT, and hello ask ADDRESS PORT: net/http of a program that makes
// its system calls itself, so that nothing of it can be accelerated, nor harmed.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
)

func ask(url string, body []byte) {
	response, err := http.Post(url, "text/plain", bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Equal(got, body) {
		log.Fatal("not what was sent: ", err)
	}
}

func main() {
	where := os.Args[2] + ":" + os.Args[3]
	if os.Args[1] == "serve" {
		http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				w.Write(body)
			}
		})
		log.Fatal(http.ListenAndServe(where, nil))
	}
	var all sync.WaitGroup
	for i := 0; i < 20; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			for k := 0; k < 20; k++ {
				ask("http://"+where+"/", []byte(fmt.Sprint("hello ", i, " ", k)))
			}
		}(i)
	}
	all.Wait()
	ask("http://"+where+"/", bytes.Repeat([]byte("hello"), 500000))
	fmt.Println("all right")
}
