/** Background responses of this process, as other processes ask for them through the store. */
import type { ResponseName, RunNews } from '../../core/stored-response.ts'
import type { BackgroundResponse, ResponsesDeps } from './background-response.ts'

/** Stops the responses that are to be stopped, and stores events of those that are followed elsewhere. */
export const applyRunNews = ({ jobs, responses }: Pick<ResponsesDeps, 'jobs' | 'responses'>, news: RunNews): void => {
  const jobOf = ({ id, owner }: ResponseName): BackgroundResponse | undefined => {
    const job = jobs.get(id)
    return job?.owner === owner ? job : undefined
  }
  for (const run of news.stop) void jobOf(run)?.cancel()
  for (const run of news.follow)
    void jobOf(run)?.storeEvents((from, lines) => responses.addEvents(run.id, run.owner, from, lines))
}
