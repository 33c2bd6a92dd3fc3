/** Has the connection for messages in Postgres: the event loop that serves clients has none. */
import type { SharedDatabase } from '../storage/sql/shared-database.ts'
import type { Emit } from '../storage/thread/thread-program.ts'
import type { News, NewsStore, OutgoingNews } from './news-store.ts'
import { PostgresNews } from './postgres-news.ts'

type NewsThreadOptions = { readonly database: SharedDatabase; readonly node: string }

/** `state`: why the store cannot be used, or null. */
type NewsEvents = { readonly news: readonly News[]; readonly state: string | null }

export const program = ({ database, node }: NewsThreadOptions, emit: Emit<NewsEvents>) => {
  const store: NewsStore = new PostgresNews(database, {
    node,
    onNews: (news) => emit('news', news),
    onState: (problem) => emit('state', problem),
  })
  return {
    methods: {
      send: (messages: readonly OutgoingNews[]) => store.send(messages),
      claim: ({ role, ms }: { readonly role: string; readonly ms: number }) => store.claim(role, ms),
      release: (role: string) => store.release(role),
      load: (role: string) => store.load(role),
      save: ({ role, body }: { readonly role: string; readonly body: string }) => store.save(role, body),
    },
    close: () => store.close(),
  }
}
