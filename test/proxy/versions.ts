import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { copyPackage, installBinaries } from '../../src/backends/local/binaries.ts'

/**
 * Where Postgres of versions lies that neither npm brings with Neap nor the system has: `node_modules/pg<version>` there is such a package,
 * as `.ci/run` installs them.
 */
const OTHERS = process.env['NEAP_TEST_POSTGRES']

const packageOf = (version: number): string | undefined => {
  const native = OTHERS === undefined ? undefined : join(OTHERS, 'node_modules', `pg${version}`, 'native')
  return native !== undefined && existsSync(native) ? native : undefined
}

/** The directory of a version's programs. @param directory where copies are made. Errors: UsageError where it is not here. */
export async function programsOf(version: number, directory: string): Promise<string> {
  const native = packageOf(version)
  if (native === undefined) return installBinaries(directory, version)
  await copyPackage(native, join(directory, String(version)))
  return join(directory, String(version), 'bin')
}

/** For the `skip` of tests: why they cannot run with a version of Postgres. */
export function withoutVersion(version: number): string | false {
  if (version === 18 || packageOf(version) !== undefined || existsSync(`/usr/lib/postgresql/${version}/bin/initdb`))
    return false
  return `Postgres ${version} is not here: NEAP_TEST_POSTGRES names no directory with node_modules/pg${version} (see .ci/run)`
}
