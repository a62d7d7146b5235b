/* Years are counted from March. The leap day is then the last day of a year, and the first day of a month follows from
 * a linear formula: (153·m + 2) / 5 days precede month m. An era is 400 years and always has 146,097 days. */
#include "base/date.h"

enum { ERA_DAYS = 146097, DAYS_TO_1970 = 719468 /* from 0000-03-01 */ };

int64_t day_number(struct date d)
{
    int64_t year = d.month <= 2 ? (int64_t)d.year - 1 : d.year;
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t month = (d.month + 9) % 12; /* March is 0 */
    int64_t day_of_year = (153 * month + 2) / 5 + d.day - 1;
    return era * ERA_DAYS + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - DAYS_TO_1970;
}

struct date date_of_day(int64_t day)
{
    day += DAYS_TO_1970;
    int64_t era = floor_div(day, ERA_DAYS);
    int64_t day_of_era = day - era * ERA_DAYS;
    /* Subtract the leap days before this day: one in 1,460 days, none in 36,524, one in 146,096. */
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153;
    return (struct date){
        .year = (int)(year_of_era + era * 400 + (month >= 10)),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(day_of_year - (153 * month + 2) / 5 + 1),
    };
}

bool is_leap_year(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int days_in_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return month == 2 && is_leap_year(year) ? 29 : days[month - 1];
}

bool date_is_valid(struct date d)
{
    return d.year >= 0 && d.year <= 9999 && d.month >= 1 && d.month <= 12 && d.day >= 1 &&
           d.day <= days_in_month(d.year, d.month);
}

int weekday_of(int64_t day)
{
    return (int)floor_mod(day + 4, 7); /* 1970-01-01 was a Thursday */
}

struct civil civil_of(int64_t second)
{
    int64_t day = day_of_second(second);
    int rest = (int)(second - day * DAY_S);
    return (struct civil){
        .date = date_of_day(day),
        .hour = rest / HOUR_S,
        .minute = rest % HOUR_S / MINUTE_S,
        .second = rest % MINUTE_S,
    };
}

int64_t civil_second(struct civil c)
{
    return day_number(c.date) * DAY_S + c.hour * HOUR_S + c.minute * MINUTE_S + c.second;
}
