/** Says in one line which tests this machine will skip, and what to install for them. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { peer } from './clients/peers.ts'
import { withoutVersion } from './proxy/versions.ts'
import { SEED, SHARE } from './sample.ts'

/** Programs that tests use, by the Debian package that has them. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  'postgresql-client': ['psql'],
  'postgresql-contrib': ['pgbench'],
  openssl: ['openssl'],
  passt: ['pasta'],
  nftables: ['nft'],
  iproute2: ['ip'],
  haproxy: ['haproxy'],
  'nginx-light': ['nginx'],
  chromium: ['chromium'],
  'openssh-server': ['sshd'],
  xfsprogs: ['mkfs.xfs'],
  'btrfs-progs': ['mkfs.btrfs'],
}

const PATH = `${process.env['PATH']}:/usr/sbin:/sbin`
const isMissing = (program: string): boolean =>
  spawnSync('sh', ['-c', `command -v ${program}`], { env: { PATH } }).status !== 0

const packages = Object.entries(PACKAGES).flatMap(([name, programs]) => (programs.some(isMissing) ? [name] : []))
const reasons = [
  ...(packages.length > 0 ? [`install ${packages.join(', ')}`] : []),
  ...(existsSync('/usr/lib/postgresql/15/bin/initdb') ? [] : ['install postgresql-15']),
  ...(existsSync('/usr/share/postgresql/15/extension/postgis.control')
    ? []
    : ['install postgresql-15-postgis-3, postgresql-15-partman, postgresql-15-hypopg']),
  ...[16, 17].flatMap((version) => (withoutVersion(version) === false ? [] : [`Postgres ${version} is missing`])),
  ...(existsSync(peer('.installed')) ? [] : ['make peers brings the public clients']),
  ...(process.getuid?.() === 0 ? [] : ['some need root']),
]
const verdict = reasons.length > 0 ? `some tests will be skipped: ${reasons.join('; ')}` : 'no test will be skipped'
const sample =
  SHARE < 1
    ? `${Math.round(SHARE * 100)} % of the cases of heavy suites run, drawn from seed ${SEED}`
    : 'every case runs'
process.stdout.write(`neap: ${verdict}; ${sample}\n`)
