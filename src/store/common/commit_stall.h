#pragma once
/* store/common/commit_stall.h - the failpoint `stall` (base/failpoint.h): commits wait, as if the disk stalled. */

/* Every store calls it before it commits. Returns at once unless the failpoint is armed. */
void commit_stall_wait(void);
