import { openFilesLimit, RESERVED_FILES } from '../../observe/open_files.ts'
import type { ReportContext } from '../wire/report.ts'
import type { CancelKeys } from './cancel.ts'
import type { SplicedSession } from './splice.ts'

/** State shared by all sessions, with a compute or with a pool. */
export interface SessionContext extends ReportContext {
  /** Open sessions, which end when the proxy stops. */
  readonly sessions: Set<Pick<SplicedSession, 'end'>>
  readonly cancelKeys: CancelKeys
}

/** A session has two descriptors: the client's and the compute's. */
export const MAX_SESSIONS = Math.max(1, Math.floor((openFilesLimit() - RESERVED_FILES) / 2))
