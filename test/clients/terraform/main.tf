# A project as a team would declare it, with each kind of resource that Neap serves.

terraform {
  required_providers {
    neon = { source = "kislerdm/neon" }
  }
}

variable "max_cu" { default = 1 }
variable "retention" { default = 86400 }

resource "neon_project" "shop" {
  name                      = "shop"
  pg_version                = 18
  org_id                    = var.org_id
  history_retention_seconds = var.retention
  allowed_ips               = ["127.0.0.0/8"]

  branch {
    name          = "main"
    database_name = "shop"
    role_name     = "owner"
  }

  default_endpoint_settings {
    autoscaling_limit_min_cu = 0.25
    autoscaling_limit_max_cu = 0.25
    suspend_timeout_seconds  = 600
  }
}

variable "org_id" {}

# Everything by default.
resource "neon_project" "plain" {
  name   = "plain"
  org_id = var.org_id
}

resource "neon_branch" "dev" {
  project_id = neon_project.shop.id
  parent_id  = neon_project.shop.default_branch_id
  name       = "dev"
}

resource "neon_endpoint" "dev" {
  project_id               = neon_project.shop.id
  branch_id                = neon_branch.dev.id
  type                     = "read_write"
  autoscaling_limit_min_cu = var.max_cu
  autoscaling_limit_max_cu = var.max_cu
  suspend_timeout_seconds  = 600
}

resource "neon_role" "clerk" {
  project_id = neon_project.shop.id
  branch_id  = neon_branch.dev.id
  name       = "clerk"
}

resource "neon_database" "orders" {
  project_id = neon_project.shop.id
  branch_id  = neon_branch.dev.id
  name       = "orders"
  owner_name = neon_role.clerk.name
  depends_on = [neon_endpoint.dev]
}

output "uri" {
  value     = neon_project.shop.connection_uri
  sensitive = true
}
