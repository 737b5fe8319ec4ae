/** The addresses of the simulated networks in which the tests of egress run (world.ts). */
export const PORT = 5432

/** This machine's address, in a public network. */
export const MACHINE = { address: '11.2.0.2', prefix: 24, gateway: '11.2.0.1' }
export const MACHINE_V6 = { address: '2a00:2::2', prefix: 64, gateway: '2a00:2::1' }

export const NAMED_NETWORK = '10.20.0.0/16'

export const PUBLIC = ['11.1.1.1', '2a00:1::1']
export const NAMED = ['10.20.0.5']
/** Private networks, metadata services, link-local addresses, and IPv6 addresses that embed IPv4 ones. */
export const CLOSED = [
  '10.30.0.5',
  '172.16.9.9',
  '192.168.7.7',
  '100.64.3.3',
  '169.254.169.254',
  '168.63.129.16',
].concat(['198.18.0.9', 'fd33::5', 'fd00:ec2::254', '64:ff9b::a1e:5', '2002:a1e:5::1', '2a00:2::77'])

/** The names known to the machine's resolver, which listens on its loopback. */
export const NAMES: Readonly<Record<string, string>> = {
  'public.test': '11.1.1.1',
  'named.test': '10.20.0.5',
  'rebound.test': '10.30.0.5',
}
