import { Type } from 'typebox'
import { listNotices } from '../../catalog/notice.ts'
import { Notice, noticeView } from '../../views/notice.ts'
import { route } from '../route.ts'

export const getNotices = route('GET /notices', {
  summary: 'List the limits that are used to 60 percent or more, and when they will be used up',
  tag: 'Neap',
  anyProject: true,
  returns: Type.Object({ notices: Type.Array(Notice) }),
  errors: [],
}).handle(async (_request, { db, caller }) => {
  const notices = await listNotices(db, {
    accountId: caller.account.id,
    projectId: caller.projectId,
    withHosts: caller.credential.kind === 'admin_socket',
  })
  return { notices: notices.map(noticeView) }
})
