// Runs the tests of a module: {sentence: function}. A test that throws has failed.
export async function run(tests) {
    const failures = [];
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test();
        } catch (error) {
            failures.push(`${name}: ${error.message}`);
        }
    }
    return { count: Object.keys(tests).length, failures };
}

export function same(got, wanted, what = '') {
    const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what} ${a} is not ${b}`);
}

export function yes(value, what) {
    if (!value) throw new Error(what);
}
