import { Option } from 'commander'
import { SETTINGS } from '../settings.ts'

/** Of commands that start a part of Neap. */
export const dataDir = new Option(`${SETTINGS.dataDir.flag} <directory>`, SETTINGS.dataDir.about)
export const catalogUrl = new Option(`${SETTINGS.catalogUrl.flag} <url>`, SETTINGS.catalogUrl.about)
export const apiPort = new Option(`${SETTINGS.apiPort.flag} <port>`, `${SETTINGS.apiPort.about} 0 picks a free one.`)
export const proxyPort = new Option(
  `${SETTINGS.proxyPort.flag} <port>`,
  `${SETTINGS.proxyPort.about} 0 picks a free one.`,
)
export const listen = new Option(`${SETTINGS.listen.flag} <addresses>`, SETTINGS.listen.about)

/** Of commands that ask an API. */
export const access = [
  new Option(`${SETTINGS.dataDir.flag} <directory>`, 'data directory of the Neap on this machine to ask'),
  new Option('--api-url <url>', 'the API to ask, instead of the Neap on this machine').env('NEAP_API_URL'),
  new Option('--api-key <key>', 'a key for the API at --api-url').env('NEAP_API_KEY'),
]
