/*
 * Prints the bill of materials of production: npm's (CycloneDX) without packages that only development needs. npm's own
 * --omit=dev also omits packages that both need (npm 11: pg, for one), so the lock file decides.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

interface Bill {
  readonly bomFormat: string
  readonly metadata: { readonly component: object }
  readonly components: readonly {
    readonly 'bom-ref': string
    readonly group?: string
    readonly name: string
    readonly version: string
  }[]
  readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[]
}

/** The packages of production in the lock file, as `name@version`. */
export function lockedPackages(): Set<string> {
  const file = new URL('../package-lock.json', import.meta.url)
  const { packages } = JSON.parse(readFileSync(file, 'utf8')) as {
    packages: Record<string, { name?: string; version: string; dev?: boolean }>
  }
  const production = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev)
  return new Set(
    production.map(([path, { name, version }]) => `${name ?? path.replace(/^.*node_modules\//, '')}@${version}`),
  )
}

/** The bill of materials of production. Errors: npm is older than 10, or missing. */
export function billOfMaterials(): Bill {
  const { stdout, stderr, error } = spawnSync(
    'npm',
    ['sbom', '--package-lock-only', '--sbom-format=cyclonedx', '--loglevel=error'],
    { cwd: new URL('../', import.meta.url), encoding: 'utf8', maxBuffer: 2 ** 26 },
  )
  if (error || !stdout.startsWith('{'))
    throw new Error(`npm sbom failed (it takes npm 10 or newer): ${error?.message ?? stderr}`)
  const bill = JSON.parse(stdout) as Bill
  const locked = lockedPackages()
  const components = bill.components.filter(({ group, name, version }) =>
    locked.has(`${group ? `${group}/` : ''}${name}@${version}`),
  )
  const kept = new Set(components.map((each) => each['bom-ref']))
  return {
    ...bill,
    metadata: { ...bill.metadata, component: { ...bill.metadata.component, name: 'neap' } },
    components,
    dependencies: bill.dependencies.flatMap(({ ref, dependsOn }) =>
      kept.has(ref) || ref.startsWith('neap@') ? [{ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) }] : [],
    ),
  }
}

if (process.argv[1] === import.meta.filename) process.stdout.write(`${JSON.stringify(billOfMaterials(), null, 2)}\n`)
