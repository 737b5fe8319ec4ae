/*
 * Operations of the public API that Neap does not have, by product: those of the OpenAPI document in
 * @neondatabase/api-client 2.7.3, and those that @neon/sdk 6.1.2 calls in addition. Each is refused with 404
 * NOT_SUPPORTED, so that a client can tell "not here" from "not found". docs/not-supported.md is made from this table.
 */

interface Absent {
  /** Completes "Neap has no …". */
  readonly product: string
  /** The alternative: a sentence. */
  readonly instead: string
  /** `METHOD /path`, as in the routes. */
  readonly operations: readonly string[]
}

const PROJECT = '/projects/:project_id'
const BRANCH = `${PROJECT}/branches/:branch_id`
const ORGANIZATION = '/organizations/:org_id'

export const NOT_SUPPORTED: readonly Absent[] = [
  {
    product: 'grants of access to single projects',
    instead: 'Make a key for one project and hand it over: POST /api_keys with project_id.',
    operations: [
      `POST ${PROJECT}/permissions`,
      `DELETE ${PROJECT}/permissions/:permission_id`,
      `GET ${PROJECT}/members`,
      `PUT ${PROJECT}/members/:member_id/role`,
      `DELETE ${PROJECT}/members/:member_id/role`,
    ],
  },
  {
    product: 'transfer of projects between accounts',
    instead: 'Copy the data with pg_dump and pg_restore into a project of the other account.',
    operations: [
      `POST ${PROJECT}/transfer_requests`,
      `PUT ${PROJECT}/transfer_requests/:request_id`,
      'POST /organizations/:source_org_id/projects/transfer',
      'POST /users/me/projects/transfer',
    ],
  },
  {
    product: 'billing',
    instead: 'What projects and branches use is in GET /consumption_history/v2/projects and /v2/branches.',
    operations: [
      'GET /consumption_history/projects',
      `GET ${ORGANIZATION}/billing/spending_limit`,
      `PUT ${ORGANIZATION}/billing/spending_limit`,
      `DELETE ${ORGANIZATION}/billing/spending_limit`,
    ],
  },
  {
    product: 'log-in to databases with JSON Web Tokens',
    instead: 'Log in with a role and its password.',
    operations: [`POST ${PROJECT}/jwks`, `DELETE ${PROJECT}/jwks/:jwks_id`],
  },
  {
    product: 'private (VPC) endpoints',
    instead: 'Restrict addresses with the project setting allowed_ips.',
    operations: [
      `POST ${PROJECT}/vpc_endpoints/:vpc_endpoint_id`,
      `DELETE ${PROJECT}/vpc_endpoints/:vpc_endpoint_id`,
      `GET ${ORGANIZATION}/vpc/region/:region_id/vpc_endpoints/:vpc_endpoint_id`,
      `POST ${ORGANIZATION}/vpc/region/:region_id/vpc_endpoints/:vpc_endpoint_id`,
      `DELETE ${ORGANIZATION}/vpc/region/:region_id/vpc_endpoints/:vpc_endpoint_id`,
    ],
  },
  {
    product: 'advisors',
    instead: 'Ask the database itself, for example pg_stat_user_tables and pg_stat_user_indexes.',
    operations: [`GET ${PROJECT}/advisors`],
  },
  {
    product: 'search in logs',
    instead:
      'Read the log of Neap, which its operator has; ' +
      "an endpoint's sessions are at GET …/endpoints/{endpoint_id}/activity.",
    operations: [
      `POST ${BRANCH}/logs/query`,
      `GET ${BRANCH}/logs/fields`,
      `GET ${BRANCH}/logs/fields/:field_name/values`,
    ],
  },
  {
    product: 'Data API (PostgREST)',
    instead: 'Connect with a Postgres driver, or send SQL over HTTP to the proxy.',
    operations: ['GET', 'POST', 'PATCH', 'DELETE'].map((method) => `${method} ${BRANCH}/data-api/:database_name`),
  },
  {
    product: 'object storage',
    instead: 'Keep objects in a store of your own, and their names in the database.',
    operations: [
      `GET ${BRANCH}/storage`,
      `POST ${BRANCH}/buckets`,
      `DELETE ${BRANCH}/buckets/:bucket_name`,
      `GET ${BRANCH}/buckets/:bucket_name/objects`,
      `DELETE ${BRANCH}/buckets/:bucket_name/objects/:object_key`,
      `GET ${BRANCH}/buckets/:bucket_name/objects/:object_key/download`,
      `POST ${BRANCH}/buckets/:bucket_name/objects/:object_key/presign`,
      `DELETE ${BRANCH}/buckets/:bucket_name/objects-by-prefix`,
    ],
  },
  {
    product: 'credentials for object storage, functions or an AI gateway',
    instead:
      'Connection strings of databases are at GET …/connection_uri; take the other products out of what you deploy.',
    // Clients take even an empty list as a sign that there is an AI gateway.
    operations: [
      `GET ${BRANCH}/credentials`,
      `POST ${BRANCH}/credentials`,
      `DELETE ${BRANCH}/credentials/:token_id`,
      `POST ${BRANCH}/credentials/:token_id/reveal`,
      `POST ${BRANCH}/credentials/:token_id/rotate`,
    ],
  },
  {
    product: 'AI gateway',
    instead: 'Call the provider of your models directly.',
    operations: [`GET ${BRANCH}/ai_gateway`],
  },
  {
    product: 'functions',
    instead: 'Run code where your application runs, and connect to the database from there.',
    operations: [
      `GET ${BRANCH}/functions/:slug`,
      `PATCH ${BRANCH}/functions/:slug`,
      `DELETE ${BRANCH}/functions/:slug`,
      `POST ${BRANCH}/functions/:slug/deployments`,
      `GET ${BRANCH}/triggers`,
      `POST ${BRANCH}/triggers`,
      `GET ${BRANCH}/triggers/:trigger_id`,
      `PATCH ${BRANCH}/triggers/:trigger_id`,
      `DELETE ${BRANCH}/triggers/:trigger_id`,
      `GET ${BRANCH}/custom-domains`,
      `POST ${BRANCH}/custom-domains`,
      `DELETE ${BRANCH}/custom-domains/:domain`,
    ],
  },
  {
    product: 'authentication service for the users of your application',
    instead: 'Run one of your own; its tables can live in any database here.',
    operations: [
      'POST /projects/auth/create',
      'POST /projects/auth/keys',
      'POST /projects/auth/user',
      'POST /projects/auth/transfer_ownership',
      `GET ${PROJECT}/auth/domains`,
      `POST ${PROJECT}/auth/domains`,
      `DELETE ${PROJECT}/auth/domains`,
      `DELETE ${PROJECT}/auth/users/:auth_user_id`,
      `GET ${PROJECT}/auth/integrations`,
      `DELETE ${PROJECT}/auth/integration/:auth_provider`,
      `GET ${PROJECT}/auth/oauth_providers`,
      `POST ${PROJECT}/auth/oauth_providers`,
      `PATCH ${PROJECT}/auth/oauth_providers/:oauth_provider_id`,
      `DELETE ${PROJECT}/auth/oauth_providers/:oauth_provider_id`,
      `GET ${PROJECT}/auth/email_server`,
      `PATCH ${PROJECT}/auth/email_server`,
      `GET ${BRANCH}/auth`,
      `POST ${BRANCH}/auth`,
      `DELETE ${BRANCH}/auth`,
      `GET ${BRANCH}/auth/domains`,
      `POST ${BRANCH}/auth/domains`,
      `DELETE ${BRANCH}/auth/domains`,
      `POST ${BRANCH}/auth/users`,
      `DELETE ${BRANCH}/auth/users/:auth_user_id`,
      `PUT ${BRANCH}/auth/users/:auth_user_id/role`,
      `GET ${BRANCH}/auth/oauth_providers`,
      `POST ${BRANCH}/auth/oauth_providers`,
      `PATCH ${BRANCH}/auth/oauth_providers/:oauth_provider_id`,
      `DELETE ${BRANCH}/auth/oauth_providers/:oauth_provider_id`,
      `POST ${BRANCH}/auth/send_test_email`,
      `GET ${BRANCH}/auth/email_and_password`,
      `PATCH ${BRANCH}/auth/email_and_password`,
      `GET ${BRANCH}/auth/email_provider`,
      `PATCH ${BRANCH}/auth/email_provider`,
      `POST ${BRANCH}/auth/email_provider/test`,
      `GET ${BRANCH}/auth/allow_localhost`,
      `PATCH ${BRANCH}/auth/allow_localhost`,
      `PATCH ${BRANCH}/auth/config`,
      `GET ${BRANCH}/auth/plugins`,
      `PATCH ${BRANCH}/auth/plugins/organization`,
      `PATCH ${BRANCH}/auth/plugins/magic-link`,
      `GET ${BRANCH}/auth/plugins/phone-number`,
      `PATCH ${BRANCH}/auth/plugins/phone-number`,
      `GET ${BRANCH}/auth/webhooks`,
      `PUT ${BRANCH}/auth/webhooks`,
    ],
  },
]
