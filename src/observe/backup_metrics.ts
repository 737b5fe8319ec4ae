import type { Registry } from 'prom-client'
import { addGauge } from './gauge.ts'

/** The backups of a host. */
interface Backups {
  /** Branches whose last commits have not been in the repository for a minute. */
  readonly behind: number
  /** Protected branches whose last drill has failed. */
  readonly failedDrills: number
}

/** Adds gauges of the backups of a host; without a repository they have no value. */
export function createBackupMetrics(registry: Registry, read: () => Promise<Backups | undefined>): void {
  const behind = {
    name: 'neap_backups_behind',
    help: 'Branches that were last compared with the repository of backups more than a minute ago, and are due.',
  }
  const failed = {
    name: 'neap_backup_drills_failed',
    help: 'Protected branches whose newest backup could not be restored and checked the last time.',
  }
  addGauge(registry, behind, async () => (await read())?.behind)
  addGauge(registry, failed, async () => (await read())?.failedDrills)
}
