import assert from 'node:assert/strict'

/** Fetches a page that a clone builds at the first visit. Waits until the build has ended. */
export const built = async (page: string): Promise<Response> => {
  for (const end = performance.now() + 120_000; ; ) {
    const response = await fetch(page)
    const text = await response.clone().text()
    if (!text.includes('being built')) return response
    assert.ok(performance.now() < end, 'the build does not end')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}
