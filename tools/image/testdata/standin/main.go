// Command standin takes the place of Portcullis in the tests: it is compiled in a moment.
package main

var version = "dev"

func main() { println("standin", version) }
