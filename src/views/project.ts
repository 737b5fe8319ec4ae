import { type Static, Type } from 'typebox'
import type { Account } from '../catalog/account.ts'
import { NO_USE, projectByteHours, projectUses, type Consumed } from '../catalog/consumption.ts'
import type { Db } from '../catalog/catalog.ts'
import { whyNoEgress } from '../catalog/host.ts'
import { PROVISIONERS } from '../catalog/endpoint.ts'
import type { Project as ProjectRow } from '../catalog/project.ts'
import type { ProjectSummary } from '../catalog/project_summary.ts'

import type { Config } from '../config.ts'
import { proxyHost } from '../public_address.ts'
import { useView } from './branch.ts'
import { PgbouncerSettings, Provisioner } from './endpoint_settings.ts'
import { ShownProjectSettings, shownProjectSettings } from './project_settings.ts'

export const DefaultEndpointSettings = Type.Object({
  autoscaling_limit_min_cu: Type.Optional(Type.Number()),
  autoscaling_limit_max_cu: Type.Optional(Type.Number()),
  suspend_timeout_seconds: Type.Optional(Type.Integer()),
  pg_settings: Type.Optional(Type.Record(Type.String(), Type.String())),
  pgbouncer_settings: Type.Optional(PgbouncerSettings),
})

const ListItem = {
  id: Type.String(),
  platform_id: Type.String(),
  region_id: Type.String(),
  name: Type.String(),
  provisioner: Provisioner,
  default_endpoint_settings: DefaultEndpointSettings,
  settings: ShownProjectSettings,
  pg_version: Type.Integer(),
  proxy_host: Type.String(),
  branch_logical_size_limit: Type.Integer({ description: 'In MiB; 0: no limit' }),
  branch_logical_size_limit_bytes: Type.Integer(),
  store_passwords: Type.Boolean(),
  cpu_used_sec: Type.Integer(),
  creation_source: Type.String(),
  history_retention_seconds: Type.Integer(),
  owner_id: Type.String(),
  org_id: Type.String(),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
}

export const ProjectListItem = Type.Object(
  {
    ...ListItem,
    active_time: Type.Integer(),
    summary: Type.Optional(
      Type.Object(
        {
          branches: Type.Integer(),
          logical_size_bytes: Type.Integer({ description: 'The sum of the sizes of its branches' }),
          endpoints: Type.Object({
            active: Type.Integer(),
            idle: Type.Integer(),
            stopped: Type.Integer({ description: 'Disabled' }),
            changing: Type.Integer({ description: 'On their way to another state' }),
          }),
        },
        { description: 'Neap only. What it has; with summary=true' },
      ),
    ),
    deleted_at: Type.Optional(Type.String({ format: 'date-time' })),
    recoverable_until: Type.Optional(Type.String({ format: 'date-time' })),
  },
  { $id: 'ProjectListItem' },
)

export const Project = Type.Object(
  {
    ...ListItem,
    data_storage_bytes_hour: Type.Integer(),
    data_transfer_bytes: Type.Integer(),
    written_data_bytes: Type.Integer(),
    compute_time_seconds: Type.Integer(),
    active_time_seconds: Type.Integer(),
    egress_missing: Type.Optional(
      Type.String({ description: 'Neap only. Why its computes reach no network although enable_egress is set' }),
    ),
    consumption_period_start: Type.String({ format: 'date-time' }),
    consumption_period_end: Type.String({ format: 'date-time' }),
    owner: Type.Optional(
      Type.Object({
        email: Type.String(),
        name: Type.String(),
        branches_limit: Type.Integer(),
        subscription_type: Type.String(),
      }),
    ),
  },
  { $id: 'Project' },
)

export interface ViewContext {
  readonly db: Db
  readonly config: Config
  readonly account: Account
}

/** @param use its use this month */
export function projectListItemView(
  row: ProjectRow,
  { config, account }: ViewContext,
  use: Consumed = NO_USE,
  summary?: ProjectSummary,
): Static<typeof ProjectListItem> {
  const { provisioner = PROVISIONERS[0], ...defaults } = row.default_endpoint_settings
  const sizeLimit = row.settings.quota?.['logical_size_bytes'] ?? 0
  return {
    id: row.id,
    platform_id: 'neap',
    region_id: row.region_id,
    name: row.name,
    provisioner,
    default_endpoint_settings: defaults,
    settings: shownProjectSettings(row),
    pg_version: row.pg_version,
    proxy_host: proxyHost(config),
    branch_logical_size_limit: Math.round(sizeLimit / 2 ** 20),
    branch_logical_size_limit_bytes: sizeLimit,
    store_passwords: true,
    active_time: Math.round(use.active_seconds),
    cpu_used_sec: Math.round(use.compute_seconds),
    creation_source: 'console',
    history_retention_seconds: row.history_retention_seconds,
    owner_id: row.account_id,
    org_id: account.organization_id,
    created_at: row.created_at,
    updated_at: row.updated_at,
    ...(summary && { summary: summaryView(summary) }),
    ...(row.deleted_at && { deleted_at: row.deleted_at }),
    ...(row.recoverable_until && { recoverable_until: row.recoverable_until }),
  }
}

const summaryView = ({ branches, logical_bytes, ...endpoints }: ProjectSummary) => ({
  branches,
  logical_size_bytes: logical_bytes,
  endpoints,
})

/** A project as clients see it, with its use this month. */
export async function projectView(row: ProjectRow, context: ViewContext): Promise<Static<typeof Project>> {
  const use = (await projectUses(context.db, [row.id])).get(row.id) ?? NO_USE
  const {
    active_time: _active,
    summary: _summary,
    deleted_at: _deleted,
    recoverable_until: _until,
    ...common
  } = projectListItemView(row, context, use)
  const egressMissing = row.settings.enable_egress ? await whyNoEgress(context.db, row.id) : undefined
  const now = new Date()
  const monthBegin = (months: number) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months)).toISOString()
  return {
    ...common,
    ...useView(use),
    data_storage_bytes_hour: Math.round(await projectByteHours(context.db, row.id)),
    ...(egressMissing !== undefined && { egress_missing: egressMissing }),
    consumption_period_start: monthBegin(0),
    consumption_period_end: monthBegin(1),
  }
}
