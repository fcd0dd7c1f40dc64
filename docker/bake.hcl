# The image for two architectures, with an SBOM:  docker buildx bake -f docker/bake.hcl --push
# The tag 8.0.0 is for Testcontainers modules that read the tag as a version of Confluent Platform.

variable "NAME" {
  default = "stuntbroker"
}

variable "VERSION" {
  default = "0.1.0"
}

variable "REVISION" {
  default = ""
}

# The image of docker/Dockerfile, which engines of any version can build.
target "plain" {
  context    = "."
  dockerfile = "docker/Dockerfile"
  args       = { VERSION = VERSION, REVISION = REVISION }
  platforms  = ["linux/amd64", "linux/arm64"]
}

# Engines from 25 on run the health check every quarter of a second while the broker starts. Older engines can run this image,
# but cannot build it.
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
