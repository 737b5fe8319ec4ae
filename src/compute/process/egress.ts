/**
 * Egress of computes whose project allows it (docs/walls.md, "Network"). A filter in the network namespace of each such
 * compute decides which addresses it reaches; egress.pl loads it and starts pasta, which carries the packets.
 */
import { accessSync, constants } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os'
import { messageOf } from '../../errors.ts'
import { CLOSED_V4, CLOSED_V6, GLOBAL_V6 } from '../../network.ts'
import { type Wall, WALLS } from '../../walls.ts'
import { runEffect } from '../../host/effect.ts'
import { BARE_ENVIRONMENT } from '../../host/script.ts'
import { RESOLVER, type Walls } from './walls.ts'

/** Closed even to named networks: this host, its links, multicast, and metadata services of clouds. */
const ALWAYS_CLOSED = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '192.0.0.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/8',
  'fe80::/10',
  'ff00::/8',
  // Metadata: Alibaba Cloud, Azure, Amazon, Google.
  '100.100.100.200/32',
  '168.63.129.16/32',
  'fd00:ec2::/32',
  'fd20:ce::/32',
]

/** Without these walls a compute could change or leave its network namespace, or would query the host's resolvers. */
const NEEDED: readonly Wall[] = ['network', 'processes', 'files', 'calls']

const PROGRAMS = { pasta: 'passt', nft: 'nftables' }

/**
 * The filter of a compute, as nft takes it. The first rule that a packet matches decides.
 * @param allowed networks reachable besides public ones, as CIDR
 * @param interfaces those of this machine, whose addresses are refused; for IPv6 the /64 around each, since privacy
 * addresses change daily
 */
export function filterOf(
  allowed: readonly string[],
  interfaces: NodeJS.Dict<NetworkInterfaceInfo[]> = networkInterfaces(),
): string {
  const own = Object.values(interfaces).flatMap((each = []) => each.map(({ address }) => address))
  const around = own.filter((address) => isIP(address) === 6).map((address) => `${address}/64`)
  const rule = (verdict: string) => (network: string) =>
    `${isIP(network.split('/')[0] ?? '') === 6 ? 'ip6' : 'ip'} daddr ${network} ${verdict}`
  const refuse = rule('jump refuse')
  const rules = [
    'oifname "lo" accept',
    `ip daddr ${RESOLVER} meta l4proto { tcp, udp } th dport 53 accept`,
    // Without these, neighbor discovery finds no neighbor and so no gateway.
    'icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept',
    ...[...ALWAYS_CLOSED, ...own].map(refuse),
    ...allowed.map(rule('accept')),
    ...[...CLOSED_V4, ...CLOSED_V6, ...around].map(refuse),
    ...['0.0.0.0/0', ...GLOBAL_V6].map(rule('accept')),
    'jump refuse',
  ]
  // Refuse TCP by a reset: connect() acts on an ICMP error only at its second attempt, a second later.
  return `table inet egress {
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain out {
    type filter hook output priority filter; policy drop;
    ${rules.join('\n    ')}
  }
}
`
}

/** Whether these walls suffice for a compute to have egress. */
export const mayReachOut = (walls: Walls): boolean => NEEDED.every((wall) => walls.has.has(wall))

/**
 * Why no compute here can have egress, and the remedy; undefined when it can. Opens one to find out.
 * @param root an empty directory to mount on
 */
export async function whyNoEgress(walls: Walls, root: string): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'it is for Linux only'
  const lacking = NEEDED.filter((wall) => !walls.has.has(wall))
  if (lacking.length > 0) return `computes are without ${lacking.map((wall) => `${wall} (${WALLS[wall]})`).join(', ')}`
  const absent = Object.entries(PROGRAMS).find(([program]) => !isInstalled(program))
  if (absent) return `${absent[0]} is not installed: install the package ${absent[1]}`
  try {
    await runEffect(['probe_egress', walls.argument, root, filterOf([])])
    return undefined
  } catch (error) {
    return reasonIn(messageOf(error))
  }
}

/** The error message of pasta or nft, without the lines that a machine without a system log adds. */
function reasonIn(complaint: string): string {
  const lines = complaint.split('\n').filter((line) => !/to syslog$|^WARNING: /.test(line))
  const reason = lines.at(-1) ?? complaint
  if (/tun socket/.test(reason)) return '/dev/net/tun cannot be opened: load the module tun, and let this user open it'
  if (/interface/i.test(reason)) return `this machine has no default route (${reason})`
  return `pasta or nft failed: ${reason}`
}

function isInstalled(program: string): boolean {
  return BARE_ENVIRONMENT.PATH.split(':').some((directory) => {
    try {
      accessSync(join(directory, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
