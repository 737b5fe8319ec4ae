import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError, messageOf } from '../errors.ts'
import type { StoreSecrets } from '../secrets/stores.ts'
import { type ChosenPrograms, installBinaries } from '../host/binaries.ts'
import type { Layout } from '../host/layout.ts'
import { checkReachable, makeTemplate } from './template.ts'

/**
 * Prepares the directories, programs and template that servers of a Postgres version need. Safe in any number of
 * processes at once.
 * @returns the directory of the version's programs and that of its template
 * @throws UsageError when this machine does not allow it
 */
export async function prepareVersion(
  layout: Layout,
  pgVersion: number,
  secrets: StoreSecrets,
  programs?: ChosenPrograms,
): Promise<{ bin: string; template: string }> {
  const { dataDir, runtimeDir, binaries, templates, branches, logs, trash, removed, root } = layout
  for (const directory of [dataDir, runtimeDir, binaries, templates, branches, logs, trash, removed, root]) {
    await mkdir(directory, { recursive: true, mode: 0o711 }).catch((error: unknown) => {
      // Disk space may become free again; other failures last until the operator acts.
      if (/^(ENOSPC|EDQUOT)/.test(messageOf(error))) throw error
      throw new UsageError(`Neap cannot make ${directory} (${messageOf(error)}): choose another place or allow it.`)
    })
  }
  await checkReachable(dataDir)
  await checkReachable(runtimeDir)
  const bin = await installBinaries(binaries, pgVersion, programs)
  const template = join(templates, String(pgVersion))
  await makeTemplate(template, pgVersion, bin, secrets)
  return { bin, template }
}
