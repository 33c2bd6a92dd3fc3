/** Starts the page: fills the frame of index.html, and shows the page of the address. */
import { render } from 'preact'
import { readSession } from './api.ts'
import { CurrentPage, Navigation } from './frame.tsx'
import { startLive } from './live.ts'
import { Notices } from './parts/notices.tsx'
import { Overlays } from './parts/overlays.tsx'
import { Tools } from './parts/tools.tsx'
import { startShortcuts } from './shortcuts.ts'
import { startRouting } from './store.ts'

/** Renders into an element of index.html, instead of what it contains. */
const fill = (id: string, content: Parameters<typeof render>[0]): void => {
  const element = document.getElementById(id)
  if (!element) throw new Error(`index.html has no element "${id}"`)
  element.replaceChildren()
  render(content, element)
}

/** What sticks below the bar needs its height, which grows where the texts of the bar need two lines. */
const measureBar = (): void => {
  const bar = document.querySelector<HTMLElement>('.bar')
  if (!bar) return
  new ResizeObserver(() => document.documentElement.style.setProperty('--bar', `${bar.offsetHeight}px`)).observe(bar)
}

startRouting()
startShortcuts()
fill('tools', <Tools />)
fill('notices', <Notices />)
fill('overlays', <Overlays />)
fill('page', <CurrentPage />)
fill('pages', <Navigation />)
// Each part shows the failure; the frame shows that the gateway does not answer.
readSession().catch(() => {})
startLive()
measureBar()
