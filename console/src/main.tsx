import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode, Suspense } from 'react'
import { createRoot } from 'react-dom/client'
import { Route, Switch } from 'wouter'
import { ApiError, isSignedOut } from './api.ts'
import { NotFound } from './pages/not_found.tsx'
import { Projects } from './pages/projects.tsx'
import { ErrorBoundary } from './parts/error_boundary.tsx'
import { lazyPage } from './parts/lazy_page.ts'
import { Loading } from './parts/states.tsx'
import { SignedIn } from './session.tsx'
import { Shell } from './shell.tsx'
import './style.css'

const MAX_PAUSE_MS = 5_000

const Keys = lazyPage(async () => (await import('./pages/keys.tsx')).Keys)
const AccountPage = lazyPage(async () => (await import('./pages/account/account.tsx')).AccountPage)
const You = lazyPage(async () => (await import('./pages/you.tsx')).You)
const Members = lazyPage(async () => (await import('./pages/members.tsx')).Members)
const ProjectPage = lazyPage(async () => (await import('./pages/project.tsx')).ProjectPage)
const BranchPage = lazyPage(async () => (await import('./pages/branch.tsx')).BranchPage)
const Approve = lazyPage(async () => (await import('./pages/approve.tsx')).Approve)

/** Milliseconds until a request is made again: as long as the API asks for, and longer from time to time. */
const pauseBefore = (attempt: number, error: Error): number =>
  Math.max(
    Math.min(MAX_PAUSE_MS, 250 * 2 ** attempt),
    error instanceof ApiError ? 1_000 * (error.retryAfterSeconds ?? 0) : 0,
  )

/** A session that has ended shows the sign-in page, whichever request noticed it. */
function noticeSignedOut(error: Error, isMe: boolean): void {
  if (isSignedOut(error) && !isMe) void queries.invalidateQueries({ queryKey: ['me'] })
}

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => noticeSignedOut(error, query.queryKey[0] === 'me') }),
  mutationCache: new MutationCache({ onError: (error) => noticeSignedOut(error, false) }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      // An API that is away, or has enough to do, is asked until it answers; other refusals are final.
      retry: (_count, error) => error instanceof ApiError && [0, 429, 503].includes(error.status),
      retryDelay: pauseBefore,
      networkMode: 'always',
    },
    mutations: { networkMode: 'always' },
  },
})

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <SignedIn>
        <Shell>
          <ErrorBoundary>
            <Suspense fallback={<Loading what="Loading the page" />}>
              <Switch>
                <Route path="/" component={Projects} />
                <Route path="/projects/:project_id/branches/:branch_id/:tab?">
                  {({ project_id, branch_id, tab }) => (
                    <BranchPage projectId={project_id} branchId={branch_id} {...(tab !== undefined && { tab })} />
                  )}
                </Route>
                <Route path="/projects/:project_id/:tab?">
                  {({ project_id, tab }) => <ProjectPage projectId={project_id} {...(tab !== undefined && { tab })} />}
                </Route>
                <Route path="/account/:tab?">{({ tab }) => <AccountPage {...(tab !== undefined && { tab })} />}</Route>
                <Route path="/keys" component={Keys} />
                <Route path="/approve/:code?">
                  {({ code }) => <Approve key={code} {...(code !== undefined && { code })} />}
                </Route>
                <Route path="/sessions" component={You} />
                <Route path="/you" component={You} />
                <Route path="/members" component={Members} />
                <Route component={NotFound} />
              </Switch>
            </Suspense>
          </ErrorBoundary>
        </Shell>
      </SignedIn>
    </QueryClientProvider>
  </StrictMode>,
)
