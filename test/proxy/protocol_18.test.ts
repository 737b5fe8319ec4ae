import { protocolTests } from './protocol.ts'

protocolTests(18)
