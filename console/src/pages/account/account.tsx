import { type ComponentType, type LazyExoticComponent, Suspense } from 'react'
import { lazyPage } from '../../parts/lazy_page.ts'
import { Loading } from '../../parts/states.tsx'
import { Tabs } from '../../parts/tabs.tsx'
import { NotFound } from '../not_found.tsx'

interface AccountTab {
  readonly title: string
  readonly page: LazyExoticComponent<ComponentType>
}

/** The tabs of the account by their place in the address, in order; the first is the account's own address. */
const TABS: Readonly<Record<string, AccountTab>> = {
  limits: { title: 'Plan and limits', page: lazyPage(async () => (await import('./limits.tsx')).Limits) },
  usage: { title: 'Usage', page: lazyPage(async () => (await import('./usage.tsx')).AccountUsage) },
  webhooks: { title: 'Webhooks', page: lazyPage(async () => (await import('./webhooks.tsx')).Webhooks) },
  audit: { title: 'Audit', page: lazyPage(async () => (await import('./audit.tsx')).Audit) },
}

const [FIRST = ''] = Object.keys(TABS)

/** What belongs to the account rather than to one project. */
export function AccountPage({ tab = FIRST }: { readonly tab?: string }) {
  const shown = TABS[tab]
  if (!shown) return <NotFound />
  const links = Object.entries(TABS).map(([name, { title }]) => ({
    title,
    href: name === FIRST ? '/account' : `/account/${name}`,
    isCurrent: name === tab,
  }))
  return (
    <>
      <div className="heading">
        <h1>Account</h1>
      </div>
      <Tabs label="Account" links={links} />
      <Suspense fallback={<Loading what="Loading the page" />}>
        <shown.page />
      </Suspense>
    </>
  )
}
