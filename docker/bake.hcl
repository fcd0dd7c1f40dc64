# The image for two architectures, with a list of what is in it:  docker buildx bake -f docker/bake.hcl --push
# The tag 8.0.0 is for Testcontainers modules that read a tag as a version of Confluent Platform.

variable "NAME" {
  default = "stuntbroker"
}

variable "VERSION" {
  default = "0.1.0"
}

variable "REVISION" {
  default = ""
}

target "default" {
  context    = "."
  dockerfile = "docker/Dockerfile"
  args       = { VERSION = VERSION, REVISION = REVISION }
  tags       = ["${NAME}:${VERSION}", "${NAME}:latest", "${NAME}:8.0.0"]
  platforms  = ["linux/amd64", "linux/arm64"]
  attest     = ["type=sbom", "type=provenance,mode=max"]
}
