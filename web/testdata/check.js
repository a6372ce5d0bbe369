// Helpers of the tests in the browser.
export function equal(got, want, what = '') {
	const a = JSON.stringify(got), b = JSON.stringify(want);
	if (a !== b) throw new Error(`${what}: got ${a}, want ${b}`);
}

export function check(ok, what) {
	if (!ok) throw new Error(what);
}

/** fails returns the error of a promise, which must be a SandboxError with a code. */
export async function fails(promise, code) {
	let value;
	try {
		value = await promise;
	} catch (e) {
		check(e.name === 'SandboxError', e.stack ?? String(e));
		equal(e.code, code, e.message);
		return e;
	}
	throw new Error(`no error, but ${JSON.stringify(value)}; want ${code}`);
}

let last = 0;
export const newID = () => `test-${Date.now()}-${++last}`;
