/** The pages. Each is loaded when it is first shown, and has a file in `pages/` and its words in `words/`. */
import type { ComponentChild } from 'preact'
import type { PageName } from './page-table.ts'

/** What the file of a page exports. */
export type PageModule = { readonly Page: () => ComponentChild }

export const pages: { readonly [name in PageName]: () => Promise<PageModule> } = {
  overview: () => import('./pages/overview.tsx'),
  requests: () => import('./pages/requests.tsx'),
  providers: () => import('./pages/providers.tsx'),
  teams: () => import('./pages/teams.tsx'),
  routes: () => import('./pages/routes.tsx'),
  usage: () => import('./pages/usage.tsx'),
  keys: () => import('./pages/keys.tsx'),
  playground: () => import('./pages/playground.tsx'),
  connect: () => import('./pages/connect.tsx'),
  config: () => import('./pages/config.tsx'),
  login: () => import('./pages/login.tsx'),
}
