/** The navigation, and the page of the address. */

import { signal, useSignalEffect } from '@preact/signals'
import { isOld } from './live.ts'
import { NAV_PAGES, type NavName, PAGES, type PageName } from './page-table.ts'
import { type PageModule, pages } from './pages.ts'
import { Failed, Loading, PageHead } from './parts/states.tsx'
import { SessionControls } from './parts/tools.tsx'
import { ROOT } from './root.ts'
import { current, isNarrow, pageHref, place } from './store.ts'
import { en } from './words/en.ts'

const PageLink = ({ page }: { readonly page: NavName }) => (
  <a
    href={pageHref(page)}
    data-page={page}
    data-narrow={PAGES[page].nav?.narrow}
    aria-current={place.value?.page === page ? 'page' : undefined}
  >
    {en.nav[page]}
  </a>
)

const links = (where: readonly ('bar' | 'more')[]) =>
  NAV_PAGES.filter(({ narrow }) => where.includes(narrow)).map(({ name }) => <PageLink key={name} page={name} />)

export const Navigation = () => {
  if (!isNarrow.value) return <>{links(['bar', 'more'])}</>
  const isInMore = PAGES[current.value.page].nav?.narrow !== 'bar'
  return (
    <>
      {links(['bar'])}
      <button type="button" popovertarget="more-pages" data-current={isInMore || undefined}>
        {en.pages.more}
      </button>
      <div id="more-pages" popover="auto" class="menu more-pages">
        {links(['more'])}
        <SessionControls />
      </div>
    </>
  )
}

type Loaded = { readonly name: PageName; readonly module: PageModule | 'failed' }
const loaded = signal<Loaded | null>(null)
/** Skeletons appear only if a page takes longer than this, in ms. */
const PATIENCE = 150
const isSlow = signal(false)

const load = async (name: PageName): Promise<void> => {
  const timer = setTimeout(() => {
    isSlow.value = true
  }, PATIENCE)
  // The file of another version of the gateway may be gone, or the gateway does not answer.
  const module = await pages[name]().catch(() => 'failed' as const)
  // Another page may have been chosen meanwhile.
  if (place.peek()?.page === name) loaded.value = { name, module }
  clearTimeout(timer)
  isSlow.value = false
}

/** Shows the page of the address. */
export const CurrentPage = () => {
  useSignalEffect(() => {
    const name = place.value?.page
    if (name !== undefined && loaded.peek()?.name !== name) void load(name)
    document.title = name === undefined ? 'Headgate' : `${en.pages[name]} · Headgate`
  })
  useSignalEffect(() => {
    const main = document.getElementById('page')
    main?.setAttribute('aria-busy', String(loaded.value === null))
    main?.toggleAttribute('data-old', isOld.value)
  })
  if (place.value === null) return <NotFound />
  const { name, module } = loaded.value ?? {}
  if (module === 'failed')
    return (
      <>
        <PageHead title={en.pages[place.value.page]} />
        <Failed
          problem={{ status: 0, code: 'page', message: en.states.pageFailed, requestId: null, fields: [] }}
          retry={() => location.reload()}
        />
      </>
    )
  if (!module || name !== place.value.page)
    return (
      <>
        <PageHead title={en.pages[place.value.page]} />
        {isSlow.value && <Loading />}
      </>
    )
  return <module.Page key={name} />
}

const NotFound = () => (
  <div class="state">
    <h1>{en.states.notFound}</h1>
    <a href={`${ROOT}dashboard/`}>{en.states.notFoundLink}</a>
  </div>
)
