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

# What docker/Dockerfile makes, for engines of any age.
target "plain" {
  context    = "."
  dockerfile = "docker/Dockerfile"
  args       = { VERSION = VERSION, REVISION = REVISION }
  platforms  = ["linux/amd64", "linux/arm64"]
}

# Engines from 25 on ask every quarter of a second while the broker starts. Older ones run it too, but cannot build it.
target "default" {
  inherits = ["plain"]
  contexts = { plain = "target:plain" }
  dockerfile-inline = <<EOF
FROM plain
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --start-interval=250ms \
  CMD ["stuntbroker", "wait", "--container", "--timeout", "2"]
EOF
  tags   = ["${NAME}:${VERSION}", "${NAME}:latest", "${NAME}:8.0.0"]
  attest = ["type=sbom", "type=provenance,mode=max"]
}
