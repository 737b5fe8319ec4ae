import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { installBinaries } from '../../src/host/binaries.ts'
import { copyPackage } from '../../src/host/bundled_binaries.ts'

/**
 * Directory with the Postgres versions that neither npm installs with Neap nor the system has: packages at
 * `node_modules/pg<version>` in it, as `make test` and `.ci/run` install them.
 */
const OTHERS = process.env['NEAP_TEST_POSTGRES'] ?? join(import.meta.dirname, '../../.postgres')

const packageOf = (version: number): string | undefined => {
  const native = join(OTHERS, 'node_modules', `pg${version}`, 'native')
  return existsSync(native) ? native : undefined
}

/**
 * The directory of a version's programs. @param directory where copies are made. Errors: UsageError (not installed).
 */
export async function programsOf(version: number, directory: string): Promise<string> {
  const native = packageOf(version)
  if (native === undefined) return installBinaries(directory, version)
  await copyPackage(native, join(directory, String(version)))
  return join(directory, String(version), 'bin')
}

/** For the `skip` of tests: the reason why no Postgres 17 with pgvector is there, or false. */
export const withoutVector = (): string | false =>
  existsSync(join(packageOf(17) ?? '', 'share/postgresql/extension/vector.control'))
    ? false
    : 'pgvector is not installed: make test brings it where a registry is in reach'

/** For the `skip` of tests: the reason why they cannot run with a version of Postgres, or false. */
export function withoutVersion(version: number): string | false {
  if (version === 18 || packageOf(version) !== undefined || existsSync(`/usr/lib/postgresql/${version}/bin/initdb`))
    return false
  return `Postgres ${version} is not installed: make test brings it where a registry is in reach`
}
